// Stored forms of what may be tens of megabytes: written at once, so that they are of one moment, and hashed and handed over
// in pieces, so that the page gets its thread back in between, and no copy of all of it is in the core's memory beside it.

import type { StoredFormHandle } from '@pirouette/wasm/client'
import { inCore, release } from '../platform/core.js'
import type { SchemeContext } from './scheme.js'

export async function storedForm(
  { core, environment }: Pick<SchemeContext, 'core' | 'environment'>,
  write: () => StoredFormHandle,
): Promise<Uint8Array> {
  const form = inCore(core, write)
  try {
    const bytes = new Uint8Array(inCore(core, () => form.left()))
    for (let at = 0; at < bytes.length; ) {
      const piece = inCore(core, () => form.piece())
      bytes.set(piece, at)
      at += piece.length
      if (at < bytes.length) await environment.pause()
    }
    return bytes
  } finally {
    release(core, form)
  }
}
