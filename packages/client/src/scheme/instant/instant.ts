// Mode `instant` (docs/protocol.md, Instant lookups): the client downloads and keeps nothing. Each server gets a share of what is asked:
// of two, a key of a distributed point function; of more, a seed or a vector. All shares but one look random together. A server sums
// the groups of records that its share selects. All sums give one group and its path to the commitment. The verdict covers every byte
// of them (I2), so it does not depend on what was asked; it does not tell who lied.

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
import { concatenated } from '../../base/bytes.js'
import { UnsupportedError } from '../../base/errors.js'
import { inCore, release } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { costsOf } from '../costs.js'
import type { Ask, SchemeContext, StatelessRequests, StatelessScheme, Verdict } from '../scheme.js'

const ENTROPY_BYTES = 32

export const instant: StatelessScheme = {
  name: 'instant',
  kind: 'stateless',

  costs(core, manifest, { usage }) {
    const maxQueries = this.maxQueries(core, manifest, usage?.servers ?? 2)
    return { ...costsOf(core, manifest, 'instant', undefined, usage), maxQueries }
  },

  maxQueries(core, manifest, servers) {
    const asked: readonly InstantOf[] = manifest.keyed ? ['directory', 'records'] : ['records']
    return Math.min(manifest.maxQueries, ...asked.map(of => sizesOf(core, manifest, of, servers).maxQueries))
  },

  isOffered: ({ instant }) => instant === true,

  begin(context, manifest, servers, of, indices) {
    return new InstantRequests(context, manifest, servers, of, indices)
  },
}

/** Bytes of an answer to one query, and most queries of a request. Throws UnsupportedError for a database without commitments. */
function sizesOf(
  core: Core,
  manifest: Manifest,
  of: InstantOf,
  servers: number,
): { readonly answerBytes: number; readonly maxQueries: number } {
  if (!hasInstant(manifest)) {
    throw new UnsupportedError(
      'offer',
      "mode: expected for 'instant' a database with commitments, got one that was built for tags alone; use another mode",
    )
  }
  const sizes = (layout: LayoutHandle) => inCore(core, () => layout.instantSizes(servers))
  const [, , answerBytes, maxQueries] = withLayout(core, manifest, sizes, of) as unknown as [
    number,
    number,
    number,
    number,
  ]
  return { answerBytes, maxQueries }
}

const HEDGE = 'keyhush 2026-11 instant entropy v1'

/**
 * Entropy that depends on the question, the epoch and who is asked. Two clones of a virtual machine may have the same random bytes: shares
 * of the same seeds would differ by what was asked.
 */
function hedged(
  core: Core,
  random: Uint8Array,
  { databaseId, generation, epoch }: Manifest,
  servers: readonly string[],
  of: InstantOf,
  indices: Uint32Array,
): Uint8Array {
  const numbers = Uint32Array.of(generation, epoch, of === 'records' ? 0 : 1, ...indices)
  const utf8 = (text: string) => new TextEncoder().encode(text)
  const words = new Uint8Array(numbers.buffer)
  const parts = [utf8(HEDGE), random, databaseId, words, utf8(JSON.stringify(servers))]
  const bytes = concatenated(parts)
  const entropy = inCore(core, () => core.blake3(bytes))
  random.fill(0)
  numbers.fill(0)
  bytes.fill(0)
  return entropy
}

/** One lookup's requests, made of fresh randomness (I1). A repeated lookup makes others. */
class InstantRequests implements StatelessRequests {
  readonly #core: Core
  readonly #manifest: Manifest
  readonly #of: InstantOf
  readonly #query: InstantQueryHandle
  readonly #count: number
  readonly #answerBytes: number
  readonly #answers: Uint8Array[] = []
  readonly asks: readonly Ask[]

  constructor(
    { core, environment }: SchemeContext,
    manifest: Manifest,
    servers: readonly string[],
    of: InstantOf,
    indices: Uint32Array,
  ) {
    this.#core = core
    this.#manifest = manifest
    this.#of = of
    this.#count = indices.length
    this.#answerBytes = sizesOf(core, manifest, of, servers.length).answerBytes
    const entropy = hedged(core, environment.random(ENTROPY_BYTES), manifest, servers, of, indices)
    const query = (layout: LayoutHandle) =>
      inCore(core, () => core.newInstantQuery(layout, indices, entropy, servers.length))
    this.#query = withLayout(core, manifest, query, of)
    entropy.fill(0)
    const replyBytes = HEADER_BYTES + this.#count * this.#answerBytes
    this.asks = servers.map((_, party) => {
      const [queries, vectors] = inCore(core, () => [this.#query.request(party), this.#query.isVector(party)] as const)
      const body = encodeInstantQuery(manifest, of, this.#count, queries, { servers: servers.length, vectors })
      return { path: INSTANT_PATH, body, replyBytes }
    })
  }

  accept(party: number, reply: Uint8Array): Verdict {
    const sizes = [this.#count, this.#answerBytes] as const
    this.#answers[party] = decodeInstantAnswer(this.#manifest, this.#of, ...sizes, reply, this.asks.length)
    return 'open'
  }

  finish(): Uint8Array | undefined {
    const each = this.#count * this.#answerBytes
    const answers = new Uint8Array(this.#answers.length * each)
    for (const [party, answer] of this.#answers.entries()) answers.set(answer, party * each)
    return inCore(this.#core, () => this.#query.recon(instantCommitments(this.#manifest, this.#of), answers))
  }

  free(): void {
    release(this.#core, this.#query)
  }
}
