// Two servers on the real core, and the network before them with its weather: replies that never come, come late, in
// pieces, cut short, twice over, from the wrong request, or as a lie.

import { decodeFenceRequest, decodeQuery, encodeAnswer, encodeFenceReply } from '@pirouette/protocol'
import type { Chance } from './chance.js'
import { DATABASES, type Database, hexOf } from './databases.js'
import { Fence } from './fence.js'

/** As callers name them. One has a path. */
export const SERVERS = ['https://a.example/pir', 'https://b.example'] as const
export type Server = (typeof SERVERS)[number]

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
  /** for the trace */
  readonly remark: string
}

export type Reply = Delivered | 'silence' | 'lost connection'

export interface NetworkWeather {
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
  weather: NetworkWeather
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

  constructor(chance: Chance, weather: NetworkWeather) {
    this.#chance = chance
    this.weather = weather
  }

  /** The epoch that any server has come to, as an index into DATABASES. */
  get newest(): number {
    return Math.max(...SERVERS.map(server => this.#newest[server]))
  }

  /** Another database under the next epoch, to which no update leads. One server has it first. */
  publish(server: Server): void {
    this.#newest[server] = Math.min(this.#newest[server] + 1, DATABASES.length - 1)
  }

  reply(request: Request): Reply {
    const { server } = request
    if (this.down.has(server)) return this.#chance.pick(['silence', 'lost connection'] as const)
    const genuine = this.#genuine(request)
    const [body] = genuine.body
    if (genuine.status !== 200) return genuine
    if (!request.path.startsWith('/v1/manifest') && this.#chance.happens(this.weather.lies)) {
      this.liars.add(server)
      return this.#lie(request, body!)
    }
    return this.#chance.happens(this.weather.faults) ? this.#faulty(body!) : this.#cut(body!)
  }

  #genuine({ server, path, body }: Request): Delivered {
    const known = DATABASES.slice(0, this.#newest[server] + 1)
    const newest = known.at(-1)!
    if (path === '/v1/manifest') return whole(newest.manifestBytes)
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
    if (path === '/v1/fence') return whole(encodeFenceReply(this.fences[server].judge(decodeFenceRequest(body))))
    const query = decodeQuery(body)
    const database = known.find(({ manifest }) => manifest.epoch === query.epoch)
    if (database === undefined) return epochUnknown(newest)
    const answer = encodeAnswer(database.manifest, query.count, database.handle.answer(query.vectors))
    this.#answers[server].push(answer)
    return whole(answer)
  }

  /** A forged entry, an answer to something else, or a hint refused that ought not to be. */
  #lie({ server, path, body }: Request, genuine: Uint8Array): Reply {
    if (body === undefined) return whole(this.#flipped(genuine, 0), 'forged')
    if (path === '/v1/fence') {
      this.slandered.add(hexOf(decodeFenceRequest(body).hintId))
      return whole(encodeFenceReply('refused'), 'a slander')
    }
    const others = this.#answers[server].filter(
      other => isOfSameKind(other, genuine) && hexOf(other) !== hexOf(genuine),
    )
    if (others.length > 0 && this.#chance.happens(0.3)) return whole(this.#chance.pick(others), 'an answer of the past')
    return whole(this.#flipped(genuine, HEADER_BYTES), 'forged')
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
  #cut(body: Uint8Array): Reply {
    if (this.#chance.happens(0.7)) return whole(body)
    const at = this.#chance.below(body.length)
    return { status: 200, headers: {}, body: [body.subarray(0, at), body.subarray(at)], remark: 'in two' }
  }
}

const HEADER_BYTES = 40

function isOfSameKind(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && hexOf(a.subarray(0, HEADER_BYTES)) === hexOf(b.subarray(0, HEADER_BYTES))
}

function whole(body: Uint8Array, remark = 'in full'): Delivered {
  return { status: 200, headers: {}, body: [body], remark }
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
