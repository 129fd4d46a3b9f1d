// When to write a checkpoint. It costs writing the whole hint. A journal costs the next open() about 0.1 ms an effect, in a
// browser, to read, unseal and replay. A checkpoint is written when the journal has an eighth of the hint's length: after
// some hundreds of lookups, two thousand at most (records of one byte), since effects grow with Q as hints do.

import { hintsOf, inCore } from '../platform/core.js'
import type { StateStore } from '../store/store.js'
import { bindingOf, type Hint } from './hint.js'
import { rowsOf } from './rows.js'

export class Checkpoints {
  #journalBytes = 0
  /** the journal's length at which the last attempt failed */
  #failedAt = 0

  /** Notes the length of the journal. */
  note(journalBytes: number): void {
    this.#journalBytes = journalBytes
  }

  /** Whether one should be written. After a failure, the journal has to grow by as much again first. */
  isDue({ core, state }: Hint): boolean {
    const held = Object.values(state.sizes).reduce((sum, bytes) => sum + bytes, 0)
    return this.#journalBytes - this.#failedAt >= inCore(core, () => hintsOf(core).journalLimit(held))
  }

  /**
   * Writes one, at the hint's version. If that fails, the journal just goes on. If another tab has moved the state on, the
   * next lookup is refused.
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
