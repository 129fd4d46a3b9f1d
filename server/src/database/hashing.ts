// BLAKE3 of many bytes, in slices: the event loop has its turn between them.

import type { Core } from '@pirouette/wasm'
import { Pace, PIECE_BYTES } from '../base/pace.js'

/** 32 bytes. `bytes` must not change meanwhile. */
export async function hashed(core: Core, bytes: Uint8Array): Promise<Uint8Array> {
  if (bytes.length <= PIECE_BYTES) return core.blake3(bytes)
  const [hasher, pace] = [core.newHasher(), new Pace()]
  try {
    for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
      hasher.update(bytes.subarray(start, start + PIECE_BYTES))
      await pace.turn()
    }
    return hasher.hash()
  } finally {
    hasher.free()
  }
}
