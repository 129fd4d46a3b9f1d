// Mode `instant` (docs/protocol.md, Instant lookups): the client downloads and keeps nothing. Each server gets one key of a distributed
// point function, which alone looks random, and sums the groups of records that it selects. Both sums give one group and its path to
// the commitment. The verdict covers every byte of both (I2), so it does not depend on what was asked; it does not tell who lied.

import {
  decodeInstantAnswer,
  encodeInstantQuery,
  HEADER_BYTES,
  hasInstant,
  INSTANT_PATH,
  type InstantOf,
  instantCommitments,
  type Manifest,
} from '@keyhush/protocol'
import type { Core, InstantQueryHandle, LayoutHandle } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { inCore, release } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { costsOf } from '../costs.js'
import type { Ask, SchemeContext, StatelessBatch, StatelessScheme, Verdict } from '../scheme.js'

const ENTROPY_BYTES = 32

export const instant: StatelessScheme = {
  name: 'instant',
  kind: 'stateless',
  parties: ['one', 'other'],

  costs(core, manifest, { usage }) {
    sizesOf(core, manifest, 'records')
    return { ...costsOf(core, manifest, 'instant', undefined, usage), maxBatch: manifest.maxBatch }
  },

  assertIn(core, manifest) {
    sizesOf(core, manifest, 'records')
  },

  isOffered: ({ instant }) => instant === true,

  begin(context, manifest, of, indices) {
    return new InstantBatch(context, manifest, of, indices)
  },
}

/** Of one query. Throws UnsupportedError for a database without commitments. */
function sizesOf(
  core: Core,
  manifest: Manifest,
  of: InstantOf,
): { readonly requestBytes: number; readonly answerBytes: number } {
  if (!hasInstant(manifest)) {
    throw new UnsupportedError(
      'offer',
      "mode: expected for 'instant' a database with commitments, got one that was built for tags alone; use another mode",
    )
  }
  const sizes = (layout: LayoutHandle) =>
    inCore(core, () => ({ requestBytes: layout.instantRequestBytes, answerBytes: layout.instantAnswerBytes }))
  return withLayout(core, manifest, sizes, of)
}

const HEDGE = new TextEncoder().encode('keyhush 2026-11 instant entropy v1')

/**
 * Entropy that depends on the question and the epoch. Two clones of a virtual machine may have the same random bytes: keys of the same
 * seeds would differ by what was asked.
 */
function hedged(
  core: Core,
  random: Uint8Array,
  { databaseId, generation, epoch }: Manifest,
  of: InstantOf,
  indices: Uint32Array,
): Uint8Array {
  const numbers = Uint32Array.of(generation, epoch, of === 'records' ? 0 : 1, ...indices)
  const parts = [HEDGE, random, databaseId, new Uint8Array(numbers.buffer)]
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  parts.reduce((at, part) => {
    bytes.set(part, at)
    return at + part.length
  }, 0)
  const entropy = inCore(core, () => core.blake3(bytes))
  random.fill(0)
  numbers.fill(0)
  bytes.fill(0)
  return entropy
}

/** One lookup's requests, made of fresh randomness (I1). A repeated lookup makes another batch. */
class InstantBatch implements StatelessBatch {
  readonly #core: Core
  readonly #manifest: Manifest
  readonly #of: InstantOf
  readonly #query: InstantQueryHandle
  readonly #count: number
  readonly #answerBytes: number
  readonly #answers: Uint8Array[] = []
  readonly asks: readonly Ask[]

  constructor({ core, environment }: SchemeContext, manifest: Manifest, of: InstantOf, indices: Uint32Array) {
    this.#core = core
    this.#manifest = manifest
    this.#of = of
    this.#count = indices.length
    this.#answerBytes = sizesOf(core, manifest, of).answerBytes
    const entropy = hedged(core, environment.random(ENTROPY_BYTES), manifest, of, indices)
    const query = (layout: LayoutHandle) => inCore(core, () => core.newInstantQuery(layout, indices, entropy))
    this.#query = withLayout(core, manifest, query, of)
    entropy.fill(0)
    const replyBytes = HEADER_BYTES + this.#count * this.#answerBytes
    this.asks = ([0, 1] as const).map(party => {
      const queries = inCore(core, () => this.#query.request(party))
      return { path: INSTANT_PATH, body: encodeInstantQuery(manifest, of, this.#count, queries), replyBytes }
    })
  }

  accept(party: number, reply: Uint8Array): Verdict {
    this.#answers[party] = decodeInstantAnswer(this.#manifest, this.#of, this.#count, this.#answerBytes, reply)
    return 'open'
  }

  finish(): Uint8Array | undefined {
    const [one, other] = this.#answers as [Uint8Array, Uint8Array]
    return inCore(this.#core, () => this.#query.recon(instantCommitments(this.#manifest, this.#of), one, other))
  }

  free(): void {
    release(this.#core, this.#query)
  }
}
