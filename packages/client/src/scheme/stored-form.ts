// Stored forms, which may have tens of megabytes. The core writes and reads one in a single step, so that it is of one moment. Hashing
// and copying go in pieces, which yield the thread and need no second copy in the core's memory.

import type { ReceivedFormHandle, StoredFormHandle } from '@keyhush/wasm/client'
import { hintsOf, inCore, readBack, release } from '../platform/core.js'
import type { SchemeContext, Sizes } from './scheme.js'

type Context = Pick<SchemeContext, 'core' | 'environment'>

const PIECE_BYTES = 256 << 10
/** The core's memory may grow by so much at once without a noticeable pause. */
const UNNOTICED_BYTES = 4 << 20

/** The bytes that `write` writes. `sizes`: of the state. */
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

/** What `read` makes of a stored form. Throws StateUnreadableError. */
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

/** Grows the core's memory in steps by what is about to be allocated, and yields the thread between them. */
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
