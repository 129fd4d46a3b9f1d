// Instant lookups at a coordinator: queries are split among the shards, whose answers are added up.
//
// Of each suite one scatter is under way, and what comes meanwhile goes together in the next. So a slow shard holds a bounded amount.

import {
  decodeInstantAnswer,
  encodeInstantQuery,
  encodePartQuery,
  HEADER_BYTES,
  INSTANT_PATH,
  type InstantOf,
} from '@keyhush/protocol'
import { isTrap } from '../base/errors.js'
import { Pace } from '../base/pace.js'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { InstantRequest } from '../instant/lookups.js'
import { Requests, type Settles, type Waiting } from '../workers/requests.js'
import type { ShardedEpoch } from './epoch.js'

type Request = InstantRequest<ShardedEpoch>

interface Entry extends Settles {
  readonly request: Request
  readonly network: string
}

/** Requests that go together: of one suite, epoch and number of servers. */
interface Scatter {
  readonly of: InstantOf
  readonly servers: number
  readonly epoch: ShardedEpoch
  readonly entries: readonly Entry[]
  readonly count: number
}

const DEFAULT_WAITING = 256
const FULL = 'too many instant lookups are waiting; try again later'
/** Queries that are split at once. The loop is held for as long: of 64 shards, 2048 partitions and two servers for milliseconds. */
const SLICE_QUERIES = 4

export class ShardedLookups extends Requests<Entry> {
  /** how often all shards were asked */
  scatters = 0
  /** Called when the core has trapped; nothing is to be answered after that. */
  onFailure: (error: Error) => void = () => {}
  readonly #shards: () => number
  /** suites of which a scatter is under way */
  readonly #underWay = new Set<string>()

  /** `shards`: how many the head has */
  constructor(shards: () => number) {
    super(DEFAULT_WAITING, ({ request }) => request.count, FULL)
    this.#shards = shards
  }

  get shards(): number {
    return this.#shards()
  }

  /** Lets a request wait for its turn. Throws an `instant_full` Refusal if there is no room for it. */
  submit(request: Request): Waiting {
    if (request.groupLog !== undefined)
      throw new Refusal('bad_request', 'form: expected queries of the whole database, got those of a shard')
    const waiting = this.add(settles => ({ ...settles, request, network: request.network }))
    this.#begin(suiteOf(request))
    return waiting
  }

  #begin(suite: string): void {
    const scatter = this.#underWay.has(suite) ? undefined : this.#choose(suite)
    if (scatter === undefined) return
    this.scatters += 1
    this.#underWay.add(suite)
    void this.#answer(scatter).then(() => {
      this.#underWay.delete(suite)
      this.#begin(suite)
    })
  }

  /** Takes as many as one request may have, of networks in their turn. */
  #choose(suite: string): Scatter | undefined {
    const entries: Entry[] = []
    let [first, most, count]: [ShardedEpoch | undefined, number, number] = [undefined, 0, 0]
    for (const entry of this.queue.inTurn()) {
      const { epochs, generation, epoch: number, of, servers } = entry.request
      if (suiteOf(entry.request) !== suite) continue
      const epoch = epochs.find(generation, number)
      if (epoch === undefined) {
        this.drop(entry, epochUnknown(epochs.newest.manifest))
        continue
      }
      first ??= epoch
      most ||= epoch.sizes(of, servers).most
      if (epoch !== first || servers !== (entries[0] ?? entry).request.servers) continue
      if (count + entry.request.count > most && count > 0) break
      count += entry.request.count
      entries.push(entry)
      this.queue.remove(entry)
      this.queue.served(entry)
    }
    if (first === undefined) return undefined
    const { of, servers } = entries[0]!.request
    return { of, servers, epoch: first, entries, count }
  }

  /** Resolves once no shard is asked for these any more. */
  async #answer(scatter: Scatter): Promise<void> {
    const { epoch, entries } = scatter
    const newest = () => entries[0]!.request.epochs.newest.manifest
    const bodies: Uint8Array[] = []
    let asked: Promise<void>[] = []
    try {
      const { answerBytes, siblingBytes } = epoch.sizes(scatter.of, scatter.servers)
      const siblings = await this.#split(scatter, siblingBytes, bodies)
      const sum = new Uint8Array(scatter.count * answerBytes)
      asked = bodies.map((body, shard) => this.#ask(scatter, shard, body, sum, newest))
      await Promise.all(asked)
      let at = 0
      for (const { request, resolve } of entries) {
        const both = Array.from({ length: request.count }, () => {
          const i = at++
          const above = siblings.subarray(i * siblingBytes, (i + 1) * siblingBytes)
          return [sum.subarray(i * answerBytes, (i + 1) * answerBytes), above]
        })
        resolve(Buffer.concat(both.flat()))
      }
    } catch (error) {
      const isGone = epoch.isClosed || (error instanceof Refusal && error.code === 'epoch_unknown')
      for (const { reject } of entries) reject(isGone ? epochUnknown(newest()) : (error as Error))
      if (isTrap(error)) this.onFailure(error)
    }
    await Promise.allSettled(asked)
    for (const body of bodies) body.fill(0)
  }

  /** Makes a request for each shard. Returns what stands above their answers, query by query. */
  async #split({ of, servers, epoch, entries, count }: Scatter, siblingBytes: number, bodies: Uint8Array[]) {
    const [slices, siblings, pace]: [Uint8Array[][], Uint8Array[], Pace] = [[], [], new Pace()]
    // Those of a client that hangs up are zeros from then on, which spoil nothing.
    for (const { request } of entries) {
      const bytes = request.queries.length / request.count
      for (let start = 0; start < request.count; start += SLICE_QUERIES) {
        const end = Math.min(request.count, start + SLICE_QUERIES)
        const split = epoch.split(of, request.queries.subarray(start * bytes, end * bytes), request)
        const above = split.length - (end - start) * siblingBytes
        const each = above / epoch.shards.length
        slices.push(epoch.shards.map((_, shard) => split.subarray(shard * each, (shard + 1) * each)))
        siblings.push(split.subarray(above))
        await pace.yield()
      }
    }
    const groupLog = servers === 2 ? undefined : epoch.groupLog(of, servers)
    for (const [shard, { manifest }] of epoch.shards.entries()) {
      const parts = Buffer.concat(slices.map(slice => slice[shard]!))
      bodies.push(
        groupLog === undefined
          ? encodeInstantQuery(manifest, of, count, parts)
          : encodePartQuery(manifest, of, count, parts, servers, groupLog),
      )
      parts.fill(0)
    }
    for (const part of slices.flat()) part.fill(0)
    return Buffer.concat(siblings)
  }

  /** Adds a shard's answers to the sum. */
  async #ask(
    { of, servers, epoch, count }: Scatter,
    shard: number,
    body: Uint8Array,
    sum: Uint8Array,
    newest: () => { readonly epoch: number },
  ): Promise<void> {
    const { manifest } = epoch.shards[shard]!
    const answersIn = (reply: Uint8Array) =>
      decodeInstantAnswer(manifest, of, count, sum.length / count, reply, servers)
    const reply = await epoch.fabric.ask(shard, {
      ...{ path: INSTANT_PATH, method: 'POST', body, most: HEADER_BYTES + sum.length, isRight: answersIn },
      // While shards take the next epoch, they leave the one before the head. That is no fault of theirs.
      passesOn: ({ code }) => code === 'epoch_unknown' && manifest.epoch < newest().epoch,
    })
    const answers = answersIn(reply)
    for (let i = 0; i < sum.length; i++) sum[i]! ^= answers[i]!
  }
}

function suiteOf({ of, servers }: Request): string {
  return `${of} ${servers === 2}`
}
