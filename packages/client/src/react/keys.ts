// Keys as the hooks keep them.

import { equalBytes } from '@keyhush/protocol'
import type { Key } from '../lookup/keys.js'

export function isSameKey(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((key, i) => isSameKey(key, b[i]))
  return isBytes(a) && isBytes(b) ? equalBytes(a, b) : a === b
}

/** The app may go on to change its array. */
export function copyOf(key: Key): Key {
  return isBytes(key) ? key.slice() : key
}

/** Of another realm, too. */
function isBytes(key: unknown): key is Uint8Array {
  return ArrayBuffer.isView(key)
}
