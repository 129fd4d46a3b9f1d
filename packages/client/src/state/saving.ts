// When a half-made hint is saved during its download (S6). An interrupted download continues from the last save, and a save
// writes all there is. So saves are SAVE_PAUSE_MS apart at least, and write two bytes at most for each one downloaded. A
// download that is over sooner is stored when it is whole.

import { SAVE_PAUSE_MS } from '../base/constants.js'
import type { Clock } from '../platform/clock.js'

export class Saving {
  readonly #clock: Pick<Clock, 'now'>
  readonly #store: () => Promise<number>
  #underWay = false
  /** bytes downloaded since the last save, and those that it wrote */
  #since = 0
  #written = 0
  /** not before this moment */
  #due: number

  /** `store` writes what there is, and resolves to how many bytes that were */
  constructor(clock: Pick<Clock, 'now'>, store: () => Promise<number>) {
    this.#clock = clock
    this.#store = store
    this.#due = clock.now() + SAVE_PAUSE_MS
  }

  /** There are `bytes` more to save. Settles with the save that this begins, if it begins one. */
  async more(bytes: number): Promise<void> {
    this.#since += bytes
    if (this.#underWay || this.#clock.now() < this.#due || 2 * this.#since < this.#written) return
    this.#underWay = true
    this.#since = 0
    try {
      this.#written = await this.#store()
    } finally {
      this.#underWay = false
      this.#due = this.#clock.now() + SAVE_PAUSE_MS
    }
  }
}
