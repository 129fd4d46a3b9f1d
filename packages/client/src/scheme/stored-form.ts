// Stored forms of what may be tens of megabytes: written at once, so that they are of one moment, but hashed and handed over
// in pieces, so that the page gets its thread back in between, and no copy of all of it is in the core's memory beside it; and
// handed back and hashed in pieces, to be read at once.

import type { ReceivedFormHandle, StoredFormHandle } from '@keyhush/wasm/client'
import { hintsOf, inCore, readBack, release } from '../platform/core.js'
import type { SchemeContext, Sizes } from './scheme.js'

type Context = Pick<SchemeContext, 'core' | 'environment'>

const PIECE_BYTES = 256 << 10
/** So much memory comes while nobody notices. */
const UNNOTICED_BYTES = 4 << 20

/** What `write` has written of something that takes so much memory. */
export async function storedForm(context: Context, sizes: Sizes, write: () => StoredFormHandle): Promise<Uint8Array> {
  const { core, environment } = context
  await makeRoom(context, sizes)
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

/** What `read` makes of a stored form, which takes about as much memory. Throws StateUnreadableError. */
export async function fromStored<T>(
  context: Context,
  stored: Uint8Array,
  read: (form: ReceivedFormHandle) => T,
): Promise<T> {
  const { core, environment } = context
  const form = inCore(core, () => hintsOf(core).newReceivedForm(stored.length))
  try {
    for (let at = 0; at < stored.length; at += PIECE_BYTES) {
      inCore(core, () => form.take(stored.subarray(at, at + PIECE_BYTES)))
      if (stored.length > PIECE_BYTES) await environment.pause()
    }
    await makeRoom(context, { stored: stored.length })
    return readBack(core, () => read(form))
  } finally {
    release(core, form)
  }
}

/** Has the core's memory grow in steps by what is about to be allocated, so that the page is not held up by that. */
export async function makeRoom({ core, environment }: Context, sizes: Sizes): Promise<void> {
  const bytes = Object.values(sizes).reduce((sum, each) => sum + each, 0)
  if (bytes <= UNNOTICED_BYTES) return
  const room = inCore(core, () => hintsOf(core).newRoom(bytes))
  try {
    while (inCore(core, () => room.step())) await environment.pause()
  } finally {
    release(core, room)
  }
}
