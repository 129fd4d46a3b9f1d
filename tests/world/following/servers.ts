// The servers of the world, each behind its own network. A server's mood says how it misbehaves: the real server behind it goes on, and
// what reaches clients is changed on the way, or comes from an older copy of it.

import { decodeManifest, encodeEvent, encodeManifest, parseInfo } from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import type { MemoryStorage } from '@keyhush/server'
import { hash } from '../../interop/reference/hash.js'
import { Chance } from '../chance.js'
import type { Asked, Reply } from '../living/servers.js'
import { responseOf } from '../network.js'
import { copyOf, Host } from './hosts.js'
import type { Tab } from './tab.js'
import type { Time } from './time.js'
import type { World } from './world.js'

/** The servers' URLs. One has a path, one a port. */
export const NAMES = ['https://a.example/pir', 'https://b.example', 'https://c.example:8443'] as const

export type Mood =
  | { readonly is: 'honest' }
  /** it takes requests and never replies */
  | { readonly is: 'silent' }
  /** a byte of a real reply at a time; `endless`: and more behind it */
  | { readonly is: 'drips'; readonly everyMs: number; readonly endless: boolean }
  /** the connection breaks after so many bytes of a reply */
  | { readonly is: 'breaks'; readonly after: number }
  /** clients see it as it was so many changes ago */
  | { readonly is: 'frozen'; readonly changes: number }
  /** each reply takes so much longer */
  | { readonly is: 'slow'; readonly ms: number }
  /** its process is not there */
  | { readonly is: 'down' }
  /** it announces an epoch so far ahead; `everyMs`: and sends a byte of what it is asked then at a time */
  | { readonly is: 'announces'; readonly ahead: number; readonly everyMs?: number }
  /** a byte of each reply whose path matches is another */
  | { readonly is: 'lies'; readonly about: RegExp }
  /** an old copy of its storage was put back, of so many changes ago */
  | { readonly is: 'back'; readonly changes: number }
  /** it gives no blobs */
  | { readonly is: 'withholds' }
  /** it refuses everything, and says to come again after so many seconds */
  | { readonly is: 'busy'; readonly seconds: number }
  /** its chains of manifests are made up, each naming the one before: so many */
  | { readonly is: 'invents'; readonly manifests: number }
  /** some GETs are answered by a replica that is so many changes behind */
  | { readonly is: 'mixed'; readonly changes: number }

const HONEST: Mood = { is: 'honest' }

/** A line of events is repeated so often, as by a server. */
const HEARTBEAT_MS = 15_000
const ANNOUNCED_EVERY_MS = 3_000
/** Copies of a storage that are kept. */
const MOST_COPIES = 12

/** An open stream of events. */
interface Stream {
  push(line: Uint8Array): void
  fail(): void
}

export class Server {
  readonly name: string
  /** for the trace */
  readonly letter: string
  mood: Mood = HONEST
  /** when that mood began */
  since = 0
  /** the times at which it misbehaved, the last one perhaps not over */
  readonly episodes: { readonly mood: Mood; readonly from: number; to: number }[] = []
  /** by how much its clock is wrong */
  readonly skewMs: number
  #isPutBack = false
  readonly #world: World
  readonly #chance: Chance
  #storage: MemoryStorage
  #host: Host
  /** an older copy that clients see */
  #old: Host | undefined
  /** after each change, the newest last */
  #copies: MemoryStorage[] = []
  readonly #streams = new Set<Stream>()

  private constructor(world: World, number: number, storage: MemoryStorage, host: Host, skewMs: number) {
    this.#world = world
    this.name = NAMES[number]!
    this.letter = 'ABC'[number]!
    this.#chance = new Chance(world.seed * 7 + number)
    this.#storage = storage
    this.#host = host
    this.skewMs = skewMs
  }

  static async start(world: World, number: number, skewMs: number): Promise<Server> {
    const storage = await copyOf(world.foundation.storage)
    const host = await hostOn(world, storage, skewMs)
    const server = new Server(world, number, storage, host, skewMs)
    server.#copies.push(await copyOf(storage))
    return server
  }

  async end(): Promise<void> {
    for (const stream of [...this.#streams]) stream.fail()
    await this.#old?.stop()
    if (this.mood.is !== 'down') await this.#host.stop()
  }

  /** Whether clients can count on it. A bounded delay is no fault; a server that was put back is none until it has been brought up. */
  get honest(): boolean {
    return !this.#isPutBack && (this.mood.is === 'honest' || this.mood.is === 'slow')
  }

  /** Whether it was honest all the time since. */
  honestSince(when: number): boolean {
    return this.episodes.every(({ to }) => to < when)
  }

  get epoch(): number {
    return this.#host.epoch
  }

  get generation(): number {
    return this.#host.database.newest.manifest.generation
  }

  /** The epochs that it answers, as clients may know. */
  get answered(): readonly number[] {
    return this.#host.database.list().map(({ epoch }) => epoch)
  }

  /** The epochs under this key that it shows, ascending. */
  signedUnder(key: string): readonly number[] {
    const { database } = this.#host
    const all = database.signed.list().filter(({ publicKey }) => publicKey === key)
    return all.map(({ epoch }) => epoch).sort((a, b) => a - b)
  }

  get newestManifest(): Uint8Array {
    return this.#host.database.newest.manifestBytes
  }

  // ---- moods -------------------------------------------------------------------------------------

  /** It behaves so from now on. */
  become(mood: Mood): Promise<void> {
    return this.#world.time.during(`${this.letter} becomes ${mood.is}`, this.#become(mood))
  }

  async #become(mood: Mood): Promise<void> {
    const { now } = this.#world.time
    this.#world.note(this.letter, `is ${describe(mood)}`)
    this.#world.count(`mood: ${mood.is}`)
    const before = this.mood
    this.mood = mood
    this.since = now
    if (mood.is === 'back') this.#isPutBack = true
    const last = this.episodes.at(-1)
    if (last?.to === Number.POSITIVE_INFINITY && !this.#isPutBack) last.to = now
    if (mood.is !== 'honest' && mood.is !== 'slow')
      this.episodes.push({ mood, from: now, to: Number.POSITIVE_INFINITY })
    const parts = ['silent', 'down', 'frozen', 'back', 'mixed']
    if (parts.includes(before.is) || parts.includes(mood.is)) this.#dropStreams()
    if (before.is === 'down') this.#host = await hostOn(this.#world, this.#storage, this.skewMs)
    if (this.#old !== undefined) await this.#old.stop()
    this.#old = undefined
    if (mood.is === 'down') await this.#host.stop()
    if (mood.is === 'frozen' || mood.is === 'mixed') {
      this.#old = await hostOn(this.#world, await copyOf(this.#copy(mood.changes)), this.skewMs)
    }
    if (mood.is === 'back') {
      await this.#host.stop()
      this.#storage = await copyOf(this.#copy(mood.changes))
      this.#host = await hostOn(this.#world, this.#storage, this.skewMs)
    }
    if (mood.is === 'announces') this.#announce(mood)
  }

  /** Honest again, after which what was put back stays. */
  calm(): Promise<void> {
    return this.become(HONEST)
  }

  #copy(changes: number): MemoryStorage {
    return this.#copies.at(-1 - changes) ?? this.#copies[0]!
  }

  #dropStreams(): void {
    for (const stream of [...this.#streams]) stream.fail()
  }

  #announce(mood: Mood & { readonly is: 'announces' }): void {
    if (this.mood !== mood || this.#world.over) return
    for (const { push } of this.#streams) push(this.#claim(mood.ahead))
    this.#world.time.after(ANNOUNCED_EVERY_MS, () => this.#announce(mood))
  }

  #claim(ahead: number): Uint8Array {
    const { databaseId, generation, epoch } = this.#host.database.newest.manifest
    return new TextEncoder().encode(encodeEvent({ databaseId, generation, epoch: epoch + ahead }))
  }

  // ---- requests ----------------------------------------------------------------------------------

  /** How long something takes on its way. */
  get #latency(): number {
    return this.#chance.between(5, 40)
  }

  /** What the server replies to a publisher; rejects if it is not there. It never replies while it is silent. */
  async publish(path: string, asked: Asked): Promise<Reply> {
    const { time } = this.#world
    await time.sleep(this.#latency)
    if (this.mood.is === 'down') throw new TypeError('connection refused')
    if (this.mood.is === 'silent') return await new Promise(() => {})
    const { mood } = this
    const reply = await this.#answer(this.#host, path, asked)
    await this.#world.changed(this, path, asked, reply)
    await time.sleep(this.#latency + this.#delay(reply.body.length))
    if (mood.is === 'breaks') throw new TypeError('the connection is lost')
    if (mood.is === 'drips' && mood.endless) return await new Promise(() => {})
    const date = new Date(this.#world.date + this.skewMs).toUTCString()
    return { ...this.#changed(path, reply), headers: { ...reply.headers, date } }
  }

  /** After a change: what it has now may be seen later. */
  async keepCopy(): Promise<void> {
    if (this.#isPutBack && this.epoch === this.#world.truth.newest.epoch && this.mood.is === 'honest') {
      this.#isPutBack = false
      this.episodes.at(-1)!.to = this.#world.time.now
      this.since = this.#world.time.now
    }
    this.#copies = [...this.#copies, await copyOf(this.#storage)].slice(-MOST_COPIES)
  }

  #delay(bytes: number): number {
    if (this.mood.is === 'slow') return this.mood.ms
    return this.mood.is === 'drips' ? bytes * this.mood.everyMs : 0
  }

  #answer(host: Host, path: string, asked: Asked): Promise<Reply> {
    return this.#world.time.during(`${asked.method} ${path} ${this.letter}`, host.ask(path, asked))
  }

  #changed(path: string, reply: Reply): Reply {
    const { mood } = this
    if (mood.is === 'busy') return busy(mood.seconds)
    if (mood.is === 'withholds' && path.startsWith('/v1/blobs/')) return busy(1)
    if (mood.is === 'invents' && path.startsWith('/v1/manifests')) return this.#invented(reply, mood.manifests)
    if (this.mood.is !== 'lies' || reply.status !== 200 || !this.mood.about.test(path)) return reply
    const body = reply.body.slice()
    if (body.length > 0) body[this.#chance.below(body.length)]! ^= 1 << this.#chance.below(8)
    this.#world.count('lies')
    return { ...reply, body }
  }

  /** The base that was asked for, if it is there, and made-up epochs behind it. */
  #invented(reply: Reply, count: number): Reply {
    const base = reply.status === 200 ? decodeManifests(reply.body, 64)[0] : undefined
    let last = base?.bytes ?? this.newestManifest
    const chain = [last]
    for (let i = 0; i < count; i++) {
      const { epoch, ...rest } = decodeManifest(last)
      const updateListHash = new Uint8Array(32).fill(1 + i)
      const made = { ...rest, epoch: epoch + 1, previousManifest: hash(last), updateListBytes: 40, updateListHash }
      last = encodeManifest(made)
      chain.push(last)
    }
    const body = new Uint8Array(Buffer.concat(chain))
    return { ...reply, status: 200, headers: { ...reply.headers, 'content-length': `${body.length}` }, body }
  }

  /** A request of a tab. */
  fetch(tab: Tab, path: string, init: RequestInit): Promise<Response> {
    const { time } = this.#world
    const signal = init.signal ?? undefined
    return new Promise((resolve, reject) => {
      if (tab.offline) return void time.after(0, () => tab.run(() => reject(lost())))
      const trip = new Trip(tab, time, reject)
      signal?.addEventListener('abort', () => {
        trip.end()
        reject(signal.reason)
      })
      time.after(this.#latency, () => {
        if (trip.over || this.mood.is === 'silent') return
        if (this.mood.is === 'down') return time.after(this.#latency, () => trip.fail())
        if (path === '/v1/events') void this.#listen(trip, resolve)
        else void this.#reply(trip, path, init, resolve)
      })
    })
  }

  async #reply(trip: Trip, path: string, init: RequestInit, resolve: (response: Response) => void): Promise<void> {
    const { time } = this.#world
    const { mood } = this
    const body = (init.body as Uint8Array | undefined)?.slice()
    const isGet = body === undefined
    const isOld = mood.is === 'frozen' || (mood.is === 'mixed' && isGet && this.#chance.happens(0.5))
    const host = isOld ? this.#old! : this.#host
    const genuine = await this.#answer(host, path, { method: isGet ? 'GET' : 'POST', body })
    const reply = this.#changed(path, genuine)
    time.after(this.#latency + (mood.is === 'slow' ? mood.ms : 0), () =>
      trip.run(() => {
        if (path === '/v1/info' && (this.honest || mood.is === 'withholds'))
          trip.tab.sees(this, parseInfo(JSON.parse(Buffer.from(reply.body).toString())))
        const piece = this.#pieces(trip, reply.body, mood)
        const isBlob = reply.status === 200 && path.startsWith('/v1/blobs/')
        const next = async () => {
          const came = await piece()
          if (came === undefined && isBlob) trip.tab.blobAt = trip.tab.awake
          return came
        }
        resolve(responseOf(reply.status, reply.headers, next, async () => trip.end()))
      }),
    )
  }

  /** A body, as it arrives. */
  #pieces(trip: Trip, body: Uint8Array, mood: Mood): () => Promise<Uint8Array | undefined> {
    const { time } = this.#world
    if (mood.is === 'announces' && mood.everyMs !== undefined) {
      return this.#pieces(trip, body, { is: 'drips', everyMs: mood.everyMs, endless: true })
    }
    if (mood.is !== 'drips' && mood.is !== 'breaks') {
      const whole = [body]
      return async () => {
        if (whole.length === 0) trip.end()
        return whole.shift()
      }
    }
    let at = 0
    return () =>
      new Promise((resolve, reject) => {
        trip.reject = reject
        const give = (piece: Uint8Array | undefined, ms: number) =>
          void time.after(ms, () =>
            trip.run(() => {
              at += piece?.length ?? 0
              resolve(piece)
            }),
          )
        const left = body.length - at
        if (mood.is === 'drips') {
          const piece = mood.endless && left === 0 ? new Uint8Array(1) : body.subarray(at, at + 1)
          give(left === 0 && !mood.endless ? undefined : piece, mood.everyMs)
        } else if (left > 0 && at === mood.after) time.after(5, () => trip.fail())
        else give(left === 0 ? undefined : body.subarray(at, mood.after), 0)
      })
  }

  async #listen(trip: Trip, resolve: (response: Response) => void): Promise<void> {
    const { time } = this.#world
    const { mood } = this
    const latency = this.#latency
    const lines: Uint8Array[] = []
    let wake = () => {}
    const arrive = (line: Uint8Array) => {
      time.after(latency, () =>
        trip.run(() => {
          lines.push(line)
          wake()
        }),
      )
    }
    const stream: Stream = { push: arrive, fail: () => void time.after(latency, () => trip.fail()) }
    this.#streams.add(stream)
    trip.whenOver(() => void this.#streams.delete(stream))
    const listening = (this.#old ?? this.#host).listen(line => {
      const isChanged = this.mood.is === 'lies' && this.mood.about.test('/v1/events')
      if (isChanged) line[this.#chance.below(line.length)]! ^= 1
      if (this.mood.is !== 'silent') arrive(line)
    })
    trip.whenOver(await time.during(`events ${this.letter}`, listening))
    if (mood.is === 'announces') arrive(this.#claim(mood.ahead))
    const beat = () => {
      if (trip.over || this.#world.over) return
      const silent = this.mood.is === 'down' || this.mood.is === 'silent'
      if (!silent)
        arrive(new TextEncoder().encode(encodeEvent((this.#old ?? this.#host).database.signed.told.manifest)))
      time.after(HEARTBEAT_MS, beat)
    }
    time.after(HEARTBEAT_MS, beat)
    time.after(latency, () =>
      trip.run(() => {
        const next = () =>
          new Promise<Uint8Array | undefined>((take, reject) => {
            trip.reject = reject
            wake = () => {
              const line = lines.shift()
              if (line === undefined) return
              wake = () => {}
              take(line)
            }
            wake()
          })
        resolve(responseOf(200, {}, next, async () => trip.end()))
      }),
    )
    if (mood.is === 'breaks') stream.fail()
  }
}

/** A request under way, and its reply: until it is over, nothing more comes of it. */
class Trip {
  over = false
  /** rejects what the client waits for */
  reject: (error: Error) => void
  readonly tab: Tab
  readonly #ends: (() => void)[] = []

  constructor(tab: Tab, time: Time, reject: (error: Error) => void) {
    this.tab = tab
    this.reject = reject
    const cut = () => void time.after(0, () => this.fail())
    const end = () => this.end()
    tab.whenOffline.add(cut)
    tab.whenDead.add(end)
    this.whenOver(() => {
      tab.whenOffline.delete(cut)
      tab.whenDead.delete(end)
    })
  }

  /** Runs it in the tab, unless this is over then. */
  run(work: () => void): void {
    this.tab.run(() => {
      if (!this.over) work()
    })
  }

  /** The connection breaks. */
  fail(): void {
    this.run(() => {
      this.end()
      this.reject(lost())
    })
  }

  end(): void {
    this.over = true
    for (const end of this.#ends.splice(0)) end()
  }

  whenOver(end: () => void): void {
    if (this.over) end()
    else this.#ends.push(end)
  }
}

/** A refusal that is as long as one may be. */
function busy(seconds: number): Reply {
  const refused = { code: 'not_ready', message: 'this server is starting' }
  const body = new TextEncoder().encode(JSON.stringify(refused).padEnd(4_096))
  return { status: 503, headers: { 'retry-after': `${seconds}` }, body }
}

function lost(): Error {
  return new TypeError('the connection is lost')
}

async function hostOn(world: World, storage: MemoryStorage, skewMs: number): Promise<Host> {
  const { foundation, history } = world
  const now = () => (world.date + skewMs) / 1000
  return await world.time.during(
    'the start of a server',
    Host.start({ foundation: foundation.laid, storage, now, history }),
  )
}

/** For the trace. */
function describe({ is, ...how }: Mood): string {
  const facts = Object.entries(how).map(([name, value]) => `${name} ${value}`)
  return facts.length === 0 ? is : `${is} (${facts.join(', ')})`
}
