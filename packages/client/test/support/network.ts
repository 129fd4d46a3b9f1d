// Two servers behind an injected fetch, and a record of everything they see. A server answers honestly unless a test
// gives it a `misbehave`.

import {
  baseOf,
  decodeClaimedQuery,
  decodeFenceRequest,
  decodeInstantQuery,
  decodeManifest,
  decodeOneServerQuery,
  encodeAnswer,
  encodeAnswerTo,
  encodeEvent,
  encodeFenceReply,
  encodeInstantAnswer,
  encodeOneServerAnswer,
  FENCE_REQUEST_BYTES,
  type FenceRequest,
  type FenceVerdict,
  HEADER_BYTES,
  INSTANT_PATH,
  type Info,
  type Manifest,
  ONE_SERVER_PATH,
  proofsIn,
  type SignatureInfo,
  SUITE_PARITIES,
  toHex,
  withVerdict,
} from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import type { Fetch } from '../../src/testing.js'
import type { ManualClock } from './clock.js'
import type { Database } from './database.js'

export const A = 'https://a.example/pir'
export const B = 'https://b.example'

/** a request hash that says that there is no request yet */
const ZERO = '0'.repeat(64)

/** What a server could see of one request, and the order in which it came. */
export interface Seen {
  readonly server: string
  readonly method: string
  readonly path: string
  readonly body: Uint8Array
  readonly url: string
  readonly init: RequestInit
  /** grows each time the event loop turns: equal ticks left together */
  readonly tick: number
}

/** An open stream of events. */
export interface Stream {
  readonly server: string
  tell(line: string): void
  end(): void
}

/** May replace the genuine reply. Returning undefined lets it through. */
export type Misbehave = (seen: Seen, genuine: Response) => Response | Promise<Response> | undefined

export class Network {
  readonly seen: Seen[] = []
  readonly misbehave: Record<string, Misbehave | undefined> = {}
  /** whether servers tell of new epochs, and the streams on which they do */
  push = false
  readonly streams = new Set<Stream>()
  /** whether servers answer instant lookups, and queries of suite 3 */
  instant = true
  single = true
  /** whether servers give downloads */
  blobs = true
  /** whether servers have a rollback fence, and what they know in it, by server and hint id */
  fence = true
  readonly hints = new Map<string, { readonly version: number; readonly hash: string }>()
  /** what either server hands on */
  readonly signatures: SignatureInfo[] = []
  /** by their hash: proofs of a publisher's log */
  readonly proofs = new Map<string, Uint8Array<ArrayBuffer>>()
  readonly #databases: Record<string, Database[]> = {}
  #tick = 0

  /** Each server's databases, newest last. */
  constructor(databases: Record<string, readonly Database[]>) {
    for (const [server, list] of Object.entries(databases)) this.#databases[server] = [...list]
  }

  readonly fetch: Fetch = async (url, init) => {
    const server = Object.keys(this.#databases).find(name => url.startsWith(name))!
    const body = new Uint8Array((init.body as Uint8Array | undefined) ?? [])
    const tick = this.#tick
    queueMicrotask(() => this.#tick++)
    const seen = { server, method: init.method!, path: url.slice(server.length), body: body.slice(), url, init, tick }
    this.seen.push(seen)
    const genuine = this.#reply(server, seen)
    return (await this.misbehave[server]?.(seen, genuine)) ?? genuine
  }

  /** Queries so far, the first `skip` left out, without the claims behind them. */
  queries(skip = 0): Seen[] {
    const asked = this.seen.filter(seen => seen.path === '/v1/answer').slice(skip)
    return asked.map(seen => ({ ...seen, body: queryIn(seen.body) }))
  }

  /** What fences were told so far, in requests of its own or behind a query. */
  claims(skip = 0): (FenceRequest & { readonly server: string })[] {
    return this.seen.flatMap(seen => claimIn(seen) ?? []).slice(skip)
  }

  /** What could be compared between two runs: everything but the vectors' contents. */
  shapes(skip = 0): string[] {
    return this.queries(skip).map(
      ({ server, method, body }) =>
        `${server} ${method} ${body.length} ${Buffer.from(body.subarray(0, 40)).toString('hex')}`,
    )
  }

  /** From now on both, or all there are, misbehave so; undefined: as servers should. */
  both(misbehave: Misbehave | undefined): void {
    for (const server of Object.keys(this.#databases)) this.misbehave[server] = misbehave
  }

  /** From now on both have these epochs, too. */
  publishOnBoth(...databases: readonly Database[]): void {
    for (const database of databases) for (const server of Object.keys(this.#databases)) this.publish(server, database)
  }

  /** Both have nothing but this from now on. */
  replaceOnBoth(database: Database): void {
    for (const server of Object.keys(this.#databases)) this.replace(server, database)
  }

  /** From now on `server` has this epoch, too. */
  publish(server: string, database: Database): void {
    this.#databases[server]!.push(database)
    for (const stream of this.streams) if (stream.server === server) stream.tell(encodeEvent(database.manifest))
  }

  /** `server` has nothing but this from now on. */
  replace(server: string, database: Database): void {
    this.#databases[server] = [database]
  }

  #stream(server: string, { init }: Seen): Response {
    let stream: Stream | undefined
    const body = new ReadableStream<Uint8Array>({
      start: controller => {
        const tell = (line: string) => controller.enqueue(new TextEncoder().encode(line))
        const end = () => {
          this.streams.delete(stream!)
          controller.close()
        }
        stream = { server, tell, end }
        this.streams.add(stream)
        tell(encodeEvent(this.#databases[server]!.at(-1)!.manifest))
        init.signal?.addEventListener('abort', () => {
          this.streams.delete(stream!)
          controller.error(init.signal?.reason)
        })
      },
      cancel: () => void this.streams.delete(stream!), // the signal had aborted before
    })
    return new Response(body, { headers: { 'content-type': 'application/x-ndjson' } })
  }

  #reply(server: string, seen: Seen): Response {
    const { path, body } = seen
    const databases = this.#databases[server]!
    const newest = databases.at(-1)!
    if (path === '/v1/manifest') return ok(newest.manifestBytes)
    const since = /^\/v1\/manifests\?since=(\d+)$/.exec(path)
    if (since) return chainAfter(Number(since[1]), databases)
    if (path === '/v1/info') return Response.json(this.info(server))
    const asked = /^\/v1\/manifest\?generation=(\d+)&epoch=(\d+)$/.exec(path)
    if (asked) {
      const found = databases.find(
        ({ manifest }) => `${manifest.generation}` === asked[1] && `${manifest.epoch}` === asked[2],
      )
      return found ? ok(found.manifestBytes) : epochUnknown(newest.manifest)
    }
    if (path.startsWith('/v1/blobs/')) {
      const hash = path.slice('/v1/blobs/'.length)
      const given = this.blobs ? databases : []
      const blob = this.proofs.get(hash) ?? given.flatMap(({ blobs }) => blobs.get(hash) ?? [])[0]
      if (blob === undefined) return problem(404, 'not_found')
      const [, from] = /^bytes=(\d+)-$/.exec(new Headers(seen.init.headers).get('range') ?? '') ?? []
      return from === undefined ? ok(blob) : new Response(blob.slice(Number(from)), { status: 206 })
    }
    if (path === '/v1/events' && this.push) return this.#stream(server, seen)
    if (path === '/v1/fence' && this.fence) return ok(encodeFenceReply(this.#judge(server, decodeFenceRequest(body))))
    if (path === INSTANT_PATH) return this.#instant(databases, body)
    if (path === ONE_SERVER_PATH) return this.#oneServer(databases, body)
    if (path !== '/v1/answer') return problem(404, 'not_found')
    const { query, claim } = claimedQuery(body)
    if (claim !== undefined && !this.fence) return problem(404, 'not_found')
    const database = askedAt(query, databases)
    if (database instanceof Response) return database
    const manifest = decodeManifest(database.manifestBytes)
    const proofs = proofsIn(manifest, query)
    if (proofs === undefined && query.suite !== SUITE_PARITIES) return problem(400, 'bad_request')
    const answer =
      proofs === undefined
        ? encodeAnswerTo(query, manifest, database.handle.answer(query.vectors, SUITE_PARITIES))
        : encodeAnswer(manifest, query.count, database.answer(query.vectors, proofs), proofs)
    return ok(claim ? withVerdict(answer, this.#judge(server, { kind: 'confirm', ...claim })) : answer)
  }

  #instant(databases: readonly Database[], body: Uint8Array): Response {
    const { of, count, queries, ...sharing } = decodeInstantQuery(body)
    const database = askedAt(sharing, databases)
    if (database instanceof Response) return database
    const answers = database.answerInstantly(of, queries, sharing)
    return ok(encodeInstantAnswer(database.manifest, of, count, answers, sharing.servers))
  }

  #oneServer(databases: readonly Database[], body: Uint8Array): Response {
    const { of, count, queries, ...asked } = decodeOneServerQuery(body)
    const database = askedAt(asked, databases, baseOf)
    if (database instanceof Response) return database
    const answers = database.oneServer!.answer(of, queries)
    return ok(encodeOneServerAnswer(baseOf(database.manifest), of, count, answers))
  }

  /** As the table of docs/protocol.md, Rollback fence, has it. */
  #judge(server: string, { kind, hintId, version, requestHash }: FenceRequest): FenceVerdict {
    const id = `${server} ${toHex(hintId)}`
    const hash = toHex(requestHash)
    const kept = this.hints.get(id)
    const grant = (): FenceVerdict => {
      this.hints.set(id, { version, hash })
      return 'granted'
    }
    if (kept === undefined) return kind === 'register' ? grant() : 'refused'
    const same = version === kept.version
    if (kind === 'register') return same && kept.hash === ZERO ? 'granted' : 'refused'
    if (version < kept.version || (same && kept.hash !== ZERO && kept.hash !== hash)) return 'refused'
    return hash === ZERO ? 'granted' : grant()
  }

  /** What `/v1/info` says; tests put signatures in. */
  info(server: string): Info {
    const databases = this.#databases[server]!
    const epochs = databases.slice(-2).map(({ manifest: { generation, epoch }, manifestBytes }) => ({
      generation,
      epoch,
      manifest: toHex(blake3(manifestBytes)),
    }))
    const offers = {
      proofs: ['merkle', 'tags'],
      updates: true,
      push: true,
      blobs: this.blobs,
      fence: this.fence,
      instant: this.instant,
      single: this.single,
      oneServer: databases.at(-1)!.oneServer !== undefined,
      history: 64,
    }
    const database = toHex(databases.at(-1)!.manifest.databaseId)
    return { format: 1, software: 'test', database, epochs, offers, signatures: this.signatures }
  }
}

/** The epoch that a request asks at: servers answer the newest, and the one before. Or the reply that it is not there. */
function askedAt(
  { databaseId, generation, epoch }: Pick<Manifest, 'databaseId' | 'generation' | 'epoch'>,
  databases: readonly Database[],
  answered = (manifest: Manifest) => manifest,
): Database | Response {
  const { manifest: newest } = databases.at(-1)!
  if (toHex(databaseId) !== toHex(newest.databaseId)) return problem(404, 'wrong_database')
  const found = databases
    .slice(-2)
    .find(({ manifest }) => manifest.generation === generation && answered(manifest).epoch === epoch)
  return found ?? epochUnknown(newest)
}

/** A query, and the claim behind it. How long one of suite 3 is follows from the whole: a claim says that it is one. */
export function claimedQuery(body: Uint8Array): ReturnType<typeof decodeClaimedQuery> {
  const end = body.length - FENCE_REQUEST_BYTES
  const claimed = Buffer.from(body.subarray(Math.max(0, end)).subarray(0, 4)).toString() === 'PIRF'
  return decodeClaimedQuery(body, ({ count }) => ((claimed ? end : body.length) - HEADER_BYTES) / count)
}

/** A query without the claim behind it. */
export function queryIn(body: Uint8Array): Uint8Array {
  const { claim } = claimedQuery(body)
  return claim === undefined ? body : body.subarray(0, -FENCE_REQUEST_BYTES)
}

/** What a request tells a fence. */
export function claimIn({ server, path, body }: Seen): (FenceRequest & { readonly server: string }) | undefined {
  if (path === '/v1/fence') return { server, ...decodeFenceRequest(body) }
  const claim = path === '/v1/answer' ? claimedQuery(body).claim : undefined
  return claim && { server, kind: 'confirm', ...claim }
}

/** The manifests after epoch E, if the next one is kept; at most 64 of them. */
function chainAfter(since: number, databases: readonly Database[]): Response {
  const newest = databases.at(-1)!
  const at = databases.findIndex(({ manifest }) => manifest.epoch === since + 1)
  if (at === -1 && since !== newest.manifest.epoch) return epochUnknown(newest.manifest)
  const chain = at === -1 ? [] : databases.slice(at, at + 64)
  return ok(Buffer.concat(chain.map(({ manifestBytes }) => manifestBytes)))
}

/** Says which epoch is the newest. */
export function epochUnknown({ generation, epoch }: { generation: number; epoch: number }): Response {
  return Response.json({ code: 'epoch_unknown', message: 'for people', generation, epoch }, { status: 404 })
}

export function ok(body: Uint8Array, headers: Record<string, string> = {}): Response {
  return new Response(body as Uint8Array<ArrayBuffer>, {
    headers: { 'content-type': 'application/octet-stream', 'content-length': `${body.length}`, ...headers },
  })
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return Response.json({ code, message: 'for people' }, { status, headers })
}

/** The genuine reply's bytes. */
export async function bytesOf(response: Response): Promise<Uint8Array> {
  return new Uint8Array(await response.arrayBuffer())
}

/** A misbehaviour on requests to one path only. */
export function on(path: string, change: (genuine: Response, seen: Seen) => Response | Promise<Response>): Misbehave {
  return (seen, genuine) => (seen.path.startsWith(path) ? change(genuine, seen) : undefined)
}

/** Flips a bit of byte `at` of every answer, or of every reply to another path. */
export function flip(at: number, path = '/v1/answer'): Misbehave {
  return on(path, async genuine => {
    const bytes = await bytesOf(genuine)
    if (at >= bytes.length) throw new Error(`an answer has only ${bytes.length} bytes`)
    bytes[at]! ^= 0x10
    return ok(bytes)
  })
}

/** Never replies. Like a real fetch, gives up when its signal aborts. */
export function hang(path: string): Misbehave {
  return on(path, (_genuine, { init }) => silence(init.signal))
}

/** No reply until the request is given up. */
export function silence(signal: AbortSignal | null | undefined): Promise<Response> {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason)
    signal?.addEventListener('abort', () => reject(signal.reason))
  })
}

/** The genuine reply, once `released` resolves. */
export function after(path: string, released: Promise<unknown>): Misbehave {
  return on(path, async genuine => {
    await released
    return genuine
  })
}

/** The genuine reply, so much later. */
export function late(clock: ManualClock, path: string, ms: number): Misbehave {
  return on(path, async genuine => {
    await clock.wait(ms)
    return genuine
  })
}

/** A byte now and then, without end. */
export function drip(clock: ManualClock, path: string, ms: number): Misbehave {
  return on(path, (_genuine, { init }) => {
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await clock.wait(ms)
        if (!init.signal?.aborted) controller.enqueue(Uint8Array.of(0))
      },
    })
    return new Response(body, { headers: { 'content-type': 'application/octet-stream' } })
  })
}

/** Every instant answer of a server is changed. */
export function lying(network: Network, server: string, lie: (answer: Uint8Array) => void): void {
  network.misbehave[server] = on(INSTANT_PATH, async genuine => {
    const answer = await bytesOf(genuine)
    lie(answer)
    return ok(answer)
  })
}

/** Answers as if it had these databases, and no others. */
export function having(server: string, signatures: readonly SignatureInfo[], ...databases: Database[]): Misbehave {
  const other = new Network({ [server]: databases })
  other.signatures.push(...signatures)
  return ({ url, init }) => other.fetch(url, init)
}

/** Says something else in `/v1/info`. */
export function showing(network: Network, server: string, change: (info: Info) => unknown): Misbehave {
  return on('/v1/info', () => Response.json(change(network.info(server))))
}

/** What a server shows, with a bit of each epoch's hash flipped. */
export function withOtherHashes({ epochs, ...info }: Info): Info {
  const flipped = (hash: string) => `${hash.slice(0, -1)}${(Number.parseInt(hash.at(-1)!, 16) ^ 1).toString(16)}`
  return { ...info, epochs: epochs.map(({ manifest, ...epoch }) => ({ ...epoch, manifest: flipped(manifest) })) }
}

/** Says that it answers no instant lookups. */
export function offersNoInstant(network: Network, server: string): Misbehave {
  return showing(network, server, ({ offers, ...info }) => ({ ...info, offers: { ...offers, instant: false } }))
}

/** Neither answers nor refuses for good. */
export const busy = on('/v1/answer', () => problem(503, 'not_ready'))

/** What was asked of partitions, directories and lists. */
export const blobs = ({ seen }: Network): Seen[] => seen.filter(({ path }) => path.startsWith('/v1/blobs/'))

/** Three servers or more are of these. */
export const SERVERS = Array.from({ length: 8 }, (_, i) => `https://${'abcdefgh'[i]}.example`)

/** The first of them, all with the same databases. */
export const among = (count: number, ...databases: Database[]) =>
  new Network(Object.fromEntries(SERVERS.slice(0, count).map(server => [server, databases])))
