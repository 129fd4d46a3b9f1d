// Mode `instant` with one server (docs/protocol/one-server.md), experimental: the client sends an encrypted choice of a column of the
// database, and decrypts the answer with the public hint, which the publisher has signed. The verdict covers every row of the column, so it
// says nothing about the one that was wanted. The client can therefore name who forged: the server, or who gave it the public hint.
//
// One request, one verdict, one epoch: it belongs to one manifest, and at most one answer to it is decrypted, with the public hint of
// that manifest's base. A transport may repeat its bytes. A lookup that is repeated makes another, of other secrets.
//
// Before the first lookup at an epoch, hint and patch are downloaded, hashed and decoded. Hints are kept for as long as the base stays; of
// a patch that has grown the end is downloaded.

import {
  baseOf,
  decodeOneServerAnswer,
  encodeOneServerQuery,
  equalBytes,
  HEADER_BYTES,
  hasOneServer,
  type InstantOf,
  instantLayout,
  type Manifest,
  ONE_SERVER_PATH,
} from '@keyhush/protocol'
import type { OneServerCore, OneServerSizes } from '@keyhush/wasm/client'
import { loadOneServerCore, oneServerCosts } from '@keyhush/wasm/one-server'
import { UNREADY_MS } from '../../base/constants.js'
import { SignatureError, TamperedError, UnsupportedError } from '../../base/errors.js'
import { coreCode, inCore, isDead, release } from '../../platform/core.js'
import type { Environment } from '../../platform/environment.js'
import { startPackage } from '../../platform/starting.js'
import type { Ask, Equipment, SchemeContext, StatelessRequests, StatelessScheme, Verdict } from '../scheme.js'
import { Downloads } from './downloads.js'

const ENTROPY_BYTES = 32

/** Starts the module of its own. Throws UnsupportedError. */
export async function startOneServer({ pause }: Pick<Environment, 'pause'>): Promise<StatelessScheme> {
  const own = await startPackage(loadOneServerCore)
  await pause() // to start it is a task by itself
  return schemeWith(own)
}

function schemeWith(own: OneServerCore): StatelessScheme {
  const downloads = new Downloads()
  return {
    name: 'instant',
    kind: 'stateless',

    get dead() {
      return isDead(own)
    },

    costs(core, manifest, { usage = {} }) {
      const sizes = allSizes(own, manifest)
      const { mode, ...costs } = oneServerCosts(manifest, sizes, usage)
      return { ...costs, maxQueries: this.maxQueries(core, manifest, 1) }
    },

    maxQueries(_core, manifest) {
      return Math.min(manifest.maxQueries, ...allSizes(own, manifest).map(({ maxQueries }) => maxQueries))
    },

    isOffered: ({ oneServer }) => oneServer,

    async equip(context, at, link, signal) {
      const hintBytes = allSizes(own, at.manifest).reduce((sum, { hintBytes }) => sum + hintBytes, 0)
      return await downloads.equip(context, at, hintBytes, link, signal)
    },

    checkNext,

    forged(server) {
      const what = 'expected an answer from the database that the publisher has signed, got a forged one'
      return new TamperedError(server, `${what}; warn your user, and use another server. Asking again is safe`)
    },

    begin(context, manifest, _servers, of, indices, equipment) {
      return new OneServerRequests(own, context, manifest, of, indices, equipment!)
    },
  }
}

/** Throws SignatureError: within a generation the base does not go back, and while it stays nothing of it changes. */
function checkNext({ generation, oneServer: before }: Manifest, { generation: next, oneServer }: Manifest): void {
  if (next !== generation || before === undefined || oneServer === undefined) return
  const isSame = oneServer.baseEpoch === before.baseEpoch
  const stays =
    oneServer.baseRecords === before.baseRecords &&
    oneServer.patchBytes >= before.patchBytes &&
    equalBytes(oneServer.hintHash, before.hintHash)
  if (oneServer.baseEpoch > before.baseEpoch || (isSame && stays)) return
  const came = isSame ? 'another under the same number' : 'an older one'
  throw new SignatureError(`expected the base of this map, or a newer one, got ${came}; ask the publisher`)
}

/** What lookups are of, in the order of their hints. */
function kindsOf({ keyed }: Manifest): readonly InstantOf[] {
  return keyed ? ['records', 'directory'] : ['records']
}

/** At the base. Throws UnsupportedError for a database without such lookups. */
function allSizes(own: OneServerCore, manifest: Manifest): OneServerSizes[] {
  if (!hasOneServer(manifest)) {
    const what = "mode: expected for 'instant' with one server a database with a public hint for it, got one without"
    throw new UnsupportedError('offer', `${what}; ask the publisher to build with --one-server, or use another mode`)
  }
  const base = baseOf(manifest)
  return kindsOf(base).map(of => sizesOf(own, base, of))
}

function sizesOf(own: OneServerCore, manifest: Manifest, of: InstantOf): OneServerSizes {
  const { records, recordBytes } = instantLayout(manifest, of)
  try {
    return inCore(own, () => own.oneServerSizes({ records, recordBytes }))
  } catch (cause) {
    if (coreCode((cause as Error).cause) !== 'layout') throw cause
    const what = "mode: expected for 'instant' with one server a smaller database, got one that is too large for it"
    throw new UnsupportedError('offer', `${what}; use another mode`, { cause })
  }
}

/** One step of one lookup: its requests, of secrets of their own (the core hedges the entropy with epoch and indices), and its verdict. */
class OneServerRequests implements StatelessRequests {
  readonly #own: OneServerCore
  readonly #pause: Environment['pause']
  readonly #manifest: Manifest
  readonly #of: InstantOf
  readonly #sizes: OneServerSizes
  readonly #count: number
  readonly #hint: Uint8Array
  readonly #query: ReturnType<OneServerCore['newOneServerQuery']>
  #records: Uint8Array | undefined
  readonly asks: readonly Ask[]
  readonly unreadyMs = UNREADY_MS

  constructor(
    own: OneServerCore,
    { environment }: SchemeContext,
    manifest: Manifest,
    of: InstantOf,
    indices: Uint32Array,
    { hint, manifestHash }: Equipment,
  ) {
    this.#own = own
    this.#pause = environment.pause
    this.#manifest = manifest
    this.#of = of
    this.#count = indices.length
    this.#sizes = sizesOf(own, manifest, of)
    this.#hint = hintOf(own, manifest, of, hint)
    const { records, recordBytes } = instantLayout(manifest, of)
    const { databaseId, generation } = manifest
    const entropy = environment.random(ENTROPY_BYTES)
    this.#query = inCore(own, () =>
      own.newOneServerQuery({ records, recordBytes }, { databaseId, generation, of }, manifestHash, indices, entropy),
    )
    entropy.fill(0)
    const body = encodeOneServerQuery(
      manifest,
      of,
      this.#count,
      inCore(own, () => this.#query.request()),
    )
    this.asks = [{ path: ONE_SERVER_PATH, body, replyBytes: HEADER_BYTES + this.#count * this.#sizes.answerBytes }]
  }

  /** Draws the noise that hides the verdict's margin, which takes as long whatever was asked. */
  weigh(_party: number, reply: Uint8Array): Promise<void> {
    this.#answersIn(reply) // throws at once
    return this.#expand()
  }

  async #expand(): Promise<void> {
    while (inCore(this.#own, () => this.#query.expand())) await this.#pause()
  }

  accept(_party: number, reply: Uint8Array): Verdict {
    const answers = this.#answersIn(reply)
    this.#records = inCore(this.#own, () => this.#query.decode(this.#hint, answers))
    return this.#records === undefined ? 'forged' : 'genuine'
  }

  #answersIn(reply: Uint8Array): Uint8Array {
    return decodeOneServerAnswer(this.#manifest, this.#of, this.#count, this.#sizes.answerBytes, reply)
  }

  finish(): Uint8Array | undefined {
    return this.#records
  }

  free(): void {
    release(this.#own, this.#query)
  }
}

/** The part of the public hint that is for this. */
function hintOf(own: OneServerCore, manifest: Manifest, of: InstantOf, hint: Uint8Array): Uint8Array {
  const { hintBytes } = sizesOf(own, manifest, 'records')
  return of === 'records' ? hint.subarray(0, hintBytes) : hint.subarray(hintBytes)
}
