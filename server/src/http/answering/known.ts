// Epochs as a thread answers them that has no core: from what it was told of them, by a kernel on the core's memory.

import { decodeManifest, type Manifest, SUITE_MERKLE_BLAKE3, SUITE_TAGS } from '@keyhush/protocol'
import type { Entries } from '@keyhush/wasm/worker'
import type { Answering } from '../answer.js'
import type { Findable } from '../binary.js'
import type { KnownDatabase, KnownEpoch } from './messages.js'

/** Thrown by `answer`: who has the core is to answer this. */
export class Elsewhere extends Error {}

export class KnownEpochs implements Findable<Answering> {
  readonly #entries: Entries
  #known: KnownDatabase
  #epochs: readonly Answering[] = []
  /** by their hash */
  #manifests = new Map<string, Manifest>()

  constructor(entries: Entries, known: KnownDatabase) {
    this.#entries = entries
    this.#known = known
    this.learn(known)
  }

  learn(known: KnownDatabase): void {
    this.#known = known
    const manifests = known.epochs.map(({ manifestHash: hash, manifestBytes }): [string, Manifest] => {
      return [hash, this.#manifests.get(hash) ?? decodeManifest(manifestBytes)]
    })
    this.#manifests = new Map(manifests)
    this.#epochs = known.epochs.map((epoch, i) => this.#answering(manifests[i]![1], epoch))
  }

  get databaseId(): Uint8Array {
    return this.#known.databaseId
  }

  get newest() {
    return { manifest: this.#known.newest }
  }

  find(generation: number, epoch: number): Answering | undefined {
    return this.#epochs.find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }

  #answering(manifest: Manifest, { suites, words }: KnownEpoch): Answering {
    const entries = this.#entries
    const known = (number: number) => suites.find(suite => suite.number === number)!
    return {
      manifest,
      suites: Uint16Array.from(suites, ({ number }) => number),
      queryLimits: suite => known(suite).limits,
      answerBytes: (queries, suite) => {
        const [one, more] = known(suite).answerBytes
        return one + (queries - 1) * more
      },
      answer: (queries, suite) => {
        const proved = suite === SUITE_MERKLE_BLAKE3
        if (!proved && suite !== SUITE_TAGS) throw new Elsewhere()
        const answer = entries.answer(words, queries, proved)
        if (answer === undefined) throw Object.assign(new Error('an offset is too large'), { code: 'index' })
        return answer
      },
    }
  }
}
