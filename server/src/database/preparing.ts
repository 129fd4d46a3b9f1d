// The epochs that are prepared for lookups with one server: the newest, and the one that clients knew before it.

import { hasOneServer } from '@keyhush/protocol'
import { Prepared } from '../one-server/prepared.js'
import type { EpochInMemory, Generation } from './generation.js'
import type { Queue } from './queue.js'

export class Preparing {
  /** whether these lookups are answered here */
  readonly answers: boolean
  readonly #queue: Queue
  readonly #isWanted: (epoch: EpochInMemory) => boolean
  #epochs: EpochInMemory[] = []

  /** `isWanted`: whether an epoch that has lost its thread gets another. */
  constructor(answers: boolean, queue: Queue, isWanted: (epoch: EpochInMemory) => boolean) {
    this.answers = answers
    this.#queue = queue
    this.#isWanted = isWanted
  }

  /** Has an epoch prepared that was not made here. Resolves once its records are copied. */
  async prepare(epoch: EpochInMemory, from: Generation): Promise<void> {
    const { manifest } = epoch
    if (!this.answers || !hasOneServer(manifest)) return
    epoch.oneServer = await Prepared.begin(manifest, from, manifest.oneServer?.hintHash)
    this.note(epoch, from)
  }

  /** An epoch is prepared, if it has a public hint. */
  note(epoch: EpochInMemory, from: Generation): void {
    if (epoch.oneServer === undefined) return
    this.#epochs.push(epoch)
    epoch.oneServer.onLost = () => {
      this.#queue(() => this.#prepareAnew(epoch, from)).catch(() => {}) // /readyz names it
    }
  }

  async #prepareAnew(epoch: EpochInMemory, from: Generation): Promise<void> {
    if (epoch.isCores !== 'newest' || !this.#isWanted(epoch)) return
    this.#epochs = this.#epochs.filter(other => other !== epoch)
    await this.prepare(epoch, from)
  }

  /** Gives back the memory of all epochs but these. Resolves once their threads have ended. */
  async endAllBut(...kept: readonly EpochInMemory[]): Promise<void> {
    const ended = this.#epochs.filter(epoch => !kept.includes(epoch))
    this.#epochs = this.#epochs.filter(epoch => kept.includes(epoch))
    await Promise.all(
      ended.map(epoch => {
        const { oneServer } = epoch
        epoch.oneServer = undefined
        return oneServer?.close()
      }),
    )
  }
}
