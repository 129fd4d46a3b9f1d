import type { KeyhushMap } from '@keyhush/client'
import { type Ref, ref, watch } from 'vue'
import { type Answer, showing } from './lookup.js'

export function useLookup(map: KeyhushMap, key: Ref<string>, { follow = false } = {}) {
  const answer = ref<Answer>('idle')
  let shown: ReturnType<typeof showing>
  const begin = (key: string, _before: unknown, onCleanup: (end: () => void) => void) => {
    shown = showing(map, key, follow, next => {
      answer.value = next
    })
    onCleanup(shown.end)
  }
  watch(key, begin, { immediate: true })
  return { answer, refetch: () => shown.refetch() }
}
