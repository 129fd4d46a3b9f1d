// The bases that are prepared for lookups with one server: that of the newest epoch, and the one before it. The latter stays until a third
// is to be prepared: memory has two at most.

import type { Base } from '../one-server/base.js'
import type { Generation } from './generation.js'
import type { Queue } from './queue.js'

export class Preparing {
  /** whether these lookups are answered here */
  readonly answers: boolean
  /** oldest first */
  bases: readonly Base[] = []
  readonly #queue: Queue
  readonly #newest: () => Generation | undefined

  /** `newest`: the generation that clients know of; undefined: nothing is answered any more. */
  constructor(answers: boolean, queue: Queue, newest: () => Generation | undefined) {
    this.answers = answers
    this.#queue = queue
    this.#newest = newest
  }

  /** Has a base prepared that the manifest has named. Resolves once its records are copied. */
  async prepare(base: Base | undefined, from: Generation): Promise<void> {
    if (base !== undefined && this.answers) await this.#begin(base, from)
  }

  /** Makes the public hint of a new base, of which the newest epoch in memory is. */
  async make(base: Base, from: Generation): Promise<void> {
    try {
      await this.#begin(base, from)
      base.hintHash = from.core.blake3(await base.prepared!.made)
    } catch (error) {
      await this.end(base)
      throw error
    }
    if (!this.answers) await this.end(base)
  }

  /** Gives back the memory of a base. Resolves once its thread has ended. */
  async end(...ended: readonly Base[]): Promise<void> {
    this.bases = this.bases.filter(base => !ended.includes(base))
    await Promise.all(
      ended.map(base => {
        const { prepared } = base
        base.prepared = undefined
        return prepared?.close()
      }),
    )
  }

  /** Gives back the memory of all bases but the newest. */
  async makeRoom(): Promise<void> {
    await this.end(...this.bases.slice(0, -1))
  }

  async #begin(base: Base, from: Generation): Promise<void> {
    if (!this.bases.includes(base)) void this.makeRoom()
    const prepared = await base.prepare(from, base.hintHash)
    base.prepared = prepared
    this.bases = [...this.bases.filter(other => other !== base), base]
    prepared.onLost = () => {
      this.#queue(() => this.#prepareAnew(base, from)).catch(() => {}) // /readyz names it
    }
  }

  /** If there is a newer base, or will be, memory does not lead back to this one any more: it is answered no more. */
  async #prepareAnew(base: Base, from: Generation): Promise<void> {
    if (this.#newest() === from && from.base === base) await this.#begin(base, from)
    else await this.end(base)
  }
}
