// When to write a checkpoint. It costs writing the whole hint, once in some hundreds of lookups; a journal costs reading,
// unsealing and replaying effect by effect at the next open(), about 0.1 ms each in a browser. At an eighth of the hint's
// length there are some hundreds of them, two thousand at most (records of a byte): effects grow with Q as hints do.

import { hintsOf, inCore } from '../platform/core.js'
import type { StateStore } from '../store/store.js'
import { bindingOf, type Hint } from './hint.js'
import { rowsOf } from './rows.js'

export class Checkpoints {
  #journalBytes = 0
  /** the journal's length at which the last attempt failed */
  #failedAt = 0

  /** The journal of the hint in use is this long now. */
  note(journalBytes: number): void {
    this.#journalBytes = journalBytes
  }

  /** Whether one should be written. After a failure only when the journal has grown as much again. */
  isDue({ core, state }: Hint): boolean {
    const held = Object.values(state.sizes).reduce((sum, bytes) => sum + bytes, 0)
    return this.#journalBytes - this.#failedAt >= inCore(core, () => hintsOf(core).journalLimit(held))
  }

  /**
   * Writes one, at the hint's version. Nothing depends on its success: the journal goes on, and whoever has moved the
   * state on meanwhile is found out by the next intent.
   */
  async write(store: StateStore, hint: Hint): Promise<void> {
    const { core, record, state, version } = hint
    const { manifest } = record
    try {
      const checkpoint = await state.checkpoint(bindingOf(core, manifest), rowsOf(store, hint))
      const directory = inCore(core, () => hint.directory?.encode() ?? new Uint8Array())
      await store.putCheckpoint(record.hintId, version, { checkpoint, manifest, directory }, state.rows)
      hint.checkpointVersion = version
      this.#journalBytes = 0
      this.#failedAt = 0
    } catch {
      this.#failedAt = this.#journalBytes
    }
  }
}
