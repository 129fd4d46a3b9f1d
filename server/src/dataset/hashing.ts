// BLAKE3 of many bytes, in slices, so that the event loop goes on.

import type { Core } from '@keyhush/wasm'
import { BYTES_AT_ONCE, Pace } from '../base/pace.js'

/** 32 bytes. `bytes` must not change meanwhile. */
export async function hashed(core: Core, bytes: Uint8Array): Promise<Uint8Array> {
  if (bytes.length <= BYTES_AT_ONCE) return core.blake3(bytes)
  const [hasher, pace] = [core.newHasher(), new Pace()]
  try {
    for (let start = 0; start < bytes.length; start += BYTES_AT_ONCE) {
      hasher.update(bytes.subarray(start, start + BYTES_AT_ONCE))
      await pace.yield()
    }
    return hasher.hash()
  } finally {
    hasher.free()
  }
}
