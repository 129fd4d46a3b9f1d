// A component that has its map in a ref, then in a store of Pinia. Vue makes a deep proxy of both. Then it shows an answer.

import { open } from '@keyhush/client'
import { createPinia, defineStore } from 'pinia'
import { createApp, isReactive, onMounted, ref, watch } from 'vue'
import { probe, show } from '../probe.js'
import { servers } from '../servers.js'
import { useLookup } from './vue.ts'

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
    const looksUp = async said => {
      inRef.value = await open({ servers })
      const { answer } = useLookup(inRef.value, ref('otter'))
      const { value, error } = await new Promise(resolve => {
        watch(answer, now => typeof now === 'object' && resolve(now))
      })
      if (value !== 'river') throw new Error(`expected river, got ${value ?? error}`)
      return said
    }
    onMounted(() => show(inBoth().then(looksUp)))
    return () => []
  },
}

createApp(App).use(createPinia()).mount(document.body)
