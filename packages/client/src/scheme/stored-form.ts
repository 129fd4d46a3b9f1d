// Stored forms, which may have tens of megabytes. The core writes one in a single step, so that it is of one moment. Hashing, copying
// and reading hints for one server go in pieces, which yield the thread and need no second copy in the core's memory.

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
export function fromStored<T>(context: Context, stored: Uint8Array, read: (form: ReceivedFormHandle) => T): Promise<T> {
  return received(context, stored, async form => readBack(context.core, () => read(form)))
}

/** A stored form that the core reads in steps of some milliseconds. */
interface SteppedReading<T> {
  step(form: ReceivedFormHandle): boolean
  /** uses up this handle */
  finish(): T
  free(): void
}

/** The same for a form that is read in steps. */
export function fromStoredInSteps<T>(
  context: Context,
  stored: Uint8Array,
  begin: (form: ReceivedFormHandle) => SteppedReading<T>,
): Promise<T> {
  const { core, environment } = context
  return received(context, stored, async form => {
    const reading = readBack(core, () => begin(form))
    try {
      do await environment.pause()
      while (readBack(core, () => reading.step(form)))
    } catch (error) {
      release(core, reading)
      throw error
    }
    return readBack(core, () => reading.finish())
  })
}

/** Hands the core a stored form piece by piece. */
async function received<T>(
  context: Context,
  stored: Uint8Array,
  read: (form: ReceivedFormHandle) => Promise<T>,
): Promise<T> {
  const { core, environment } = context
  const form = inCore(core, () => hintsOf(core).newReceivedForm(stored.length))
  try {
    for (let at = 0; at < stored.length; at += PIECE_BYTES) {
      inCore(core, () => form.take(stored.subarray(at, at + PIECE_BYTES)))
      if (stored.length > PIECE_BYTES) await environment.pause()
    }
    await makeRoom(context, { stored: stored.length })
    return await read(form)
  } finally {
    release(core, form)
  }
}

/** Grows the core's memory in steps by what is about to be allocated, and yields the thread between them. */
export async function makeRoom({ core, environment }: Context, sizes: Sizes): Promise<void> {
  const bytes = Object.values(sizes).reduce((sum, each) => sum + each, 0)
  if (bytes <= UNNOTICED_BYTES || core.kind === 'script') return
  const room = inCore(core, () => hintsOf(core).newRoom(bytes))
  try {
    while (inCore(core, () => room.step())) await environment.pause()
  } finally {
    release(core, room)
  }
}
