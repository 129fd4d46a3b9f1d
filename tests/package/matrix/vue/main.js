// A component that has its map in a ref, then in a store of Pinia. Vue makes a deep proxy of both.

import { open } from '@keyhush/client'
import { createPinia, defineStore } from 'pinia'
import { createApp, isReactive, onMounted, ref } from 'vue'
import { probe, show } from '../probe.js'

const useMaps = defineStore('maps', { state: () => ({ map: undefined }) })

const App = {
  setup() {
    const inRef = ref()
    const inStore = useMaps()
    const heldBy = hold => async options => {
      const map = hold(await open(options))
      if (!isReactive(map)) throw new Error('expected a proxy of Vue, got the map itself')
      return map
    }
    const inBoth = async () => {
      await probe(
        heldBy(map => {
          inRef.value = map
          return inRef.value
        }),
      )
      return await probe(
        heldBy(map => {
          inStore.map = map
          return inStore.map
        }),
      )
    }
    onMounted(() => show(inBoth()))
    return () => []
  },
}

createApp(App).use(createPinia()).mount(document.body)
