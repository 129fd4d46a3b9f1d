// Two servers on the real core behind a faulty network: replies are lost, late, in pieces, cut short, repeated, to another request,
// or forged. (The other world runs the real servers, which cannot lie.)

import {
  decodeClaimedQuery,
  decodeFenceRequest,
  encodeAnswer,
  encodeFenceReply,
  FENCE_REPLY_BYTES,
  type FenceRequest,
  type FenceVerdict,
  toHex,
} from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import type { Chance } from '../chance.js'
import { Fence } from '../fence.js'
import { hexOf } from '../ledger.js'
import { SERVERS, type ServerName as Server } from '../network.js'
import { DATABASES, type Database } from './databases.js'

export interface Request {
  readonly server: Server
  readonly path: string
  readonly body: Uint8Array | undefined
}

export interface Delivered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** pieces, each of which takes its time */
  readonly body: readonly Uint8Array[]
  /** the connection breaks after that */
  readonly broken?: boolean
  /** the verdict in it, alone or behind an answer, once all of it is read */
  readonly word?: Word
  /** for the trace */
  readonly remark: string
}

export interface Word {
  readonly claim: FenceRequest
  readonly verdict: FenceVerdict
}

export type Reply = Delivered | 'silence' | 'lost connection'

export interface NetworkFaults {
  /** how often a request meets with a fault */
  readonly faults: number
  /** how often an answer is forged */
  readonly lies: number
}

const FAULTS = [
  'silence',
  'lost connection',
  'busy',
  'limited',
  'cut short',
  'twice over',
  'breaks off',
  'encoded',
] as const

export class Servers {
  faults: NetworkFaults
  /** servers that reply to nothing */
  readonly down = new Set<Server>()
  /** servers that have forged something */
  readonly liars = new Set<Server>()
  /** hints, in hex, that a lying fence has refused */
  readonly slandered = new Set<string>()
  readonly fences: Readonly<Record<Server, Fence>> = { [SERVERS[0]]: new Fence(), [SERVERS[1]]: new Fence() }
  readonly #chance: Chance
  readonly #newest: Record<Server, number> = { [SERVERS[0]]: 0, [SERVERS[1]]: 0 }
  /** genuine answers of the past */
  readonly #answers: Record<Server, Uint8Array[]> = { [SERVERS[0]]: [], [SERVERS[1]]: [] }

  constructor(chance: Chance, faults: NetworkFaults) {
    this.#chance = chance
    this.faults = faults
  }

  /** The newest epoch of either server, as an index into DATABASES. */
  get newest(): number {
    return Math.max(...SERVERS.map(server => this.#newest[server]))
  }

  /** One server goes to the next epoch, to which no update leads. */
  publish(server: Server): void {
    this.#newest[server] = Math.min(this.#newest[server] + 1, DATABASES.length - 1)
  }

  reply(request: Request): Reply {
    const { server } = request
    if (this.down.has(server)) return this.#chance.pick(['silence', 'lost connection'] as const)
    const genuine = this.#genuine(request)
    if (genuine.status !== 200) return genuine
    if (!/^\/v1\/(manifest|info)/.test(request.path) && this.#chance.happens(this.faults.lies)) {
      this.liars.add(server)
      return this.#lie(request, genuine)
    }
    return this.#chance.happens(this.faults.faults) ? this.#faulty(genuine.body[0]!) : this.#cut(genuine)
  }

  #genuine({ server, path, body }: Request): Delivered {
    const known = DATABASES.slice(0, this.#newest[server] + 1)
    const newest = known.at(-1)!
    if (path === '/v1/manifest') return whole(newest.manifestBytes)
    if (path === '/v1/info') return whole(infoOf(known))
    const since = /^\/v1\/manifests\?since=(\d+)$/.exec(path)
    if (since) return chainAfter(Number(since[1]), known)
    const epoch = /^\/v1\/manifest\?generation=1&epoch=(\d+)$/.exec(path)
    if (epoch) {
      const database = known.find(({ manifest }) => `${manifest.epoch}` === epoch[1])
      return database ? whole(database.manifestBytes) : epochUnknown(newest)
    }
    if (body === undefined) {
      const blob = known.flatMap(({ blobs }) => blobs.get(path.slice('/v1/blobs/'.length)) ?? [])[0]
      return blob ? whole(blob) : refusal(404, 'not_found')
    }
    if (path === '/v1/fence') return this.#judged(server, decodeFenceRequest(body))
    const { query, claim } = decodeClaimedQuery(body)
    const database = known.find(({ manifest }) => manifest.epoch === query.epoch)
    if (database === undefined) return epochUnknown(newest)
    const answer = encodeAnswer(database.manifest, query.count, database.handle.answer(query.vectors))
    this.#answers[server].push(answer)
    return claim ? this.#judged(server, { kind: 'confirm', ...claim }, answer) : whole(answer)
  }

  /** A fence's verdict, behind an answer if there is one. */
  #judged(server: Server, claim: FenceRequest, answer = new Uint8Array()): Delivered {
    return saying({ claim, verdict: this.fences[server].judge(claim) }, answer)
  }

  /** A forged entry or verdict, an answer to another request, or a false refusal. */
  #lie({ server, path, body }: Request, genuine: Delivered): Reply {
    const [bytes] = genuine.body as [Uint8Array]
    if (body === undefined) return whole(this.#flipped(bytes, 0), 'forged')
    const answer = genuine.word ? bytes.subarray(0, -FENCE_REPLY_BYTES) : bytes
    if (genuine.word && (path === '/v1/fence' || this.#chance.happens(0.3))) {
      const { claim } = genuine.word
      this.slandered.add(hexOf(claim.hintId))
      return saying({ claim, verdict: 'refused' }, answer, 'a slander')
    }
    const others = this.#answers[server].filter(other => isOfSameKind(other, answer) && hexOf(other) !== hexOf(answer))
    if (others.length > 0 && this.#chance.happens(0.3)) {
      const verdict = bytes.subarray(answer.length)
      return whole(Buffer.concat([this.#chance.pick(others), verdict]), 'an answer of the past')
    }
    return whole(this.#flipped(bytes, HEADER_BYTES), 'forged')
  }

  #flipped(bytes: Uint8Array, from: number): Uint8Array {
    const flipped = bytes.slice()
    flipped[this.#chance.between(from, bytes.length - 1)]! ^= 1 << this.#chance.below(8)
    return flipped
  }

  #faulty(body: Uint8Array): Reply {
    const remark = this.#chance.pick(FAULTS)
    switch (remark) {
      case 'silence':
      case 'lost connection':
        return remark
      case 'busy':
        return refusal(503, 'not_ready')
      case 'limited':
        return refusal(429, 'rate_limited')
      case 'cut short':
        return whole(body.slice(0, this.#chance.below(body.length)), remark)
      case 'twice over':
        return { status: 200, headers: {}, body: [body, body], remark }
      case 'breaks off':
        return { ...whole(body.slice(0, this.#chance.below(body.length)), remark), broken: true }
      case 'encoded':
        return { status: 200, headers: { 'content-encoding': 'gzip' }, body: [body], remark }
    }
  }

  /** In one piece or two. */
  #cut(genuine: Delivered): Reply {
    if (this.#chance.happens(0.7)) return genuine
    const [bytes] = genuine.body as [Uint8Array]
    const at = this.#chance.below(bytes.length)
    return { ...genuine, body: [bytes.subarray(0, at), bytes.subarray(at)], remark: 'in two' }
  }
}

const HEADER_BYTES = 40

function isOfSameKind(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && hexOf(a.subarray(0, HEADER_BYTES)) === hexOf(b.subarray(0, HEADER_BYTES))
}

function whole(body: Uint8Array, remark = 'in full'): Delivered {
  return { status: 200, headers: {}, body: [body], remark }
}

/** A verdict, behind an answer or behind nothing. */
function saying(word: Word, answer: Uint8Array, remark?: string): Delivered {
  return { ...whole(Buffer.concat([answer, encodeFenceReply(word.verdict)]), remark), word }
}

/** All epochs are answered. */
function infoOf(known: readonly Database[]): Uint8Array {
  const epochs = known.map(({ manifest: { generation, epoch }, manifestBytes }) => ({
    ...{ generation, epoch },
    manifest: toHex(blake3(manifestBytes)),
  }))
  const offers = {
    ...{ proofs: ['merkle', 'tags'], updates: true, push: true, blobs: true },
    ...{ fence: true, instant: false, single: false },
  }
  const database = toHex(known[0]!.manifest.databaseId)
  const info = { format: 1, software: 'test', database, epochs, offers, signatures: [] }
  return new TextEncoder().encode(JSON.stringify(info))
}

/** The manifests after an epoch; none after the newest. */
function chainAfter(since: number, known: readonly Database[]): Delivered {
  const newest = known.at(-1)!
  if (since > newest.manifest.epoch) return epochUnknown(newest)
  const chain = known.filter(({ manifest }) => manifest.epoch > since)
  return whole(Buffer.concat(chain.map(({ manifestBytes }) => manifestBytes)))
}

function epochUnknown({ manifest: { generation, epoch } }: Database): Delivered {
  return refusal(404, 'epoch_unknown', { generation, epoch })
}

function refusal(status: number, code: string, more: object = {}): Delivered {
  const body = new TextEncoder().encode(JSON.stringify({ code, message: 'for people', ...more }))
  return { status, headers: {}, body: [body], remark: `${status} ${code}` }
}
