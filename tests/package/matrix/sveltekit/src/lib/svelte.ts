import type { KeyhushMap } from '@keyhush/client'
import { readable } from 'svelte/store'
import { type Answer, showing } from './lookup.js'

export function lookup(map: KeyhushMap, key: string, { follow = false } = {}) {
  let refetch = () => {}
  const { subscribe } = readable<Answer>('loading', set => {
    const shown = showing(map, key, follow, set)
    refetch = shown.refetch
    return shown.end
  })
  return { subscribe, refetch: () => refetch() }
}
