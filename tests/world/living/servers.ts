// A real server in a simulated process: database, routes, storage. It can be killed at any moment and restarts from its storage.
// (processes.ts has servers in processes of their own.)

import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import {
  createServer,
  MemoryStorage,
  openLmdb,
  type Storage,
  type Transaction,
  UpdatableDatabase,
} from '@keyhush/server'
import { PUBLISHER } from '../../support/publishing.js'
import type { Chance } from '../chance.js'
import '../pace.js'
import type { Foundation } from './databases.js'

export interface Asked {
  readonly method: 'GET' | 'POST'
  readonly body?: Uint8Array | undefined
  readonly headers?: Readonly<Record<string, string>>
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** A reply that goes on. */
export interface Stream {
  /** The next piece; undefined: it has ended. Rejects when the connection breaks. */
  next(): Promise<Uint8Array | undefined>
  /** Stops reading. */
  end(): void
}

export interface RunningServer {
  readonly running: boolean
  /** Rejects if it is not running, or is killed before it has replied. */
  ask(path: string, asked: Asked): Promise<Reply>
  /** The stream of events. Rejects as `ask` does. */
  listen(): Promise<Stream>
  /** Kills it: its storage keeps what was written by then. */
  kill(): Promise<void>
  start(): Promise<void>
  /** Waits for a part of a request; `tick` lets it do one more step. */
  meanwhile(chance: Chance, tick: () => Promise<void>): Promise<void>
  /** For good. */
  remove(): Promise<void>
}

/** Where a server keeps its database. */
interface Place {
  open(): Storage | Promise<Storage>
  /** the process that had it open is gone */
  abandoned(): void
}

class Memory implements Place {
  readonly #storage = new MemoryStorage()
  open = () => this.#storage
  abandoned(): void {}
}

/** An LMDB file. A killed process leaves it as it is: a transaction writes pages that no earlier one needs, its head page last. */
class Lmdb implements Place {
  #processes = 0
  constructor(private readonly folder: string) {}
  open = () => openLmdb(this.#path())
  abandoned(): void {
    const before = this.#path()
    this.#processes++
    cpSync(before, this.#path(), { recursive: true })
  }
  #path = () => join(this.folder, `${this.#processes}`)
}

/** Resolves when the step may happen; rejects if the server was killed. */
export type Slowly = (what: string) => Promise<void>

/** From its start until it is killed. */
interface Process {
  readonly app: Awaited<ReturnType<typeof createServer>>
  readonly database: UpdatableDatabase
  readonly leash: Leash
  readonly gone: Promise<never>
  readonly end: (error: Error) => void
  readonly streams: Set<Readable>
}

export interface LocalOptions {
  readonly foundation: Foundation
  /** epochs kept before the newest */
  readonly history: number
  /** how long a generation that has ended is answered */
  readonly lingerHours: number
  /** a folder for an LMDB file; undefined: in memory */
  readonly folder: string | undefined
  /** what its transactions wait for, before and after */
  readonly slowly: Slowly
  /** called for failures of a living server */
  readonly onFailure: (error: Error) => void
}

export class LocalServer implements RunningServer {
  readonly #options: LocalOptions
  readonly #place: Place
  #process: Process | undefined
  /** processes that have ended, and may not have been cleared away yet */
  readonly #ended: Promise<void>[] = []

  private constructor(options: LocalOptions) {
    this.#options = options
    this.#place = options.folder === undefined ? new Memory() : new Lmdb(options.folder)
  }

  static async start(options: LocalOptions): Promise<LocalServer> {
    const server = new LocalServer(options)
    const storage = await server.#place.open()
    await UpdatableDatabase.create(storage, options.foundation.dataset)
    await server.#begin(storage)
    return server
  }

  get running(): boolean {
    return this.#process !== undefined
  }

  async ask(path: string, { method, body, headers = {} }: Asked): Promise<Reply> {
    const process = this.#process
    if (process === undefined) throw new TypeError('connection refused')
    const payload = body && Buffer.from(body)
    const reply = process.app.inject({ method, url: path, headers, ...(payload && { payload }) }).then(reply => ({
      status: reply.statusCode,
      headers: Object.fromEntries(Object.entries(reply.headers).map(([name, value]) => [name, `${value}`])),
      body: new Uint8Array(reply.rawPayload),
    }))
    return await Promise.race([reply, process.gone])
  }

  async listen(): Promise<Stream> {
    const process = this.#process
    if (process === undefined) throw new TypeError('connection refused')
    const reply = process.app.inject({ method: 'GET', url: '/v1/events', payloadAsStream: true })
    const stream = (await Promise.race([reply, process.gone])).stream()
    process.streams.add(stream)
    stream.once('error', () => {}).once('close', () => process.streams.delete(stream))
    const pieces = stream.iterator()
    return {
      async next() {
        const { value } = await pieces.next()
        return value === undefined ? undefined : new Uint8Array(value)
      },
      end: () => void stream.destroy(),
    }
  }

  async kill(): Promise<void> {
    const process = this.#process
    if (process === undefined) return
    this.#process = undefined
    process.leash.cut = true
    this.#place.abandoned()
    process.end(new TypeError('the connection is lost'))
    for (const stream of process.streams) stream.destroy(new TypeError('the connection is lost'))
    this.#ended.push(dismantled(process))
  }

  async start(): Promise<void> {
    await this.#begin(await this.#place.open())
  }

  async meanwhile(chance: Chance, tick: () => Promise<void>): Promise<void> {
    for (let ticks = chance.below(4); ticks > 0; ticks--) await tick()
  }

  async remove(): Promise<void> {
    if (this.#process) this.#ended.push(dismantled(this.#process))
    this.#process = undefined
    await Promise.all(this.#ended)
  }

  async #begin(storage: Storage): Promise<void> {
    const { history, lingerHours, slowly, onFailure } = this.#options
    const leash = new Leash(storage, slowly)
    const database = await UpdatableDatabase.open(leash, { history, lingerHours })
    const onTrap = (error: Error) => {
      if (!leash.cut) onFailure(error)
    }
    const app = await createServer({
      datasets: [{ updatable: database, publisherKeys: [PUBLISHER.publicKey] }],
      onTrap,
    })
    let end = (_error: Error) => {}
    const gone = new Promise<never>((_, reject) => {
      end = reject
    })
    gone.catch(() => {})
    this.#process = { app, database, leash, gone, end, streams: new Set() }
  }
}

/** Frees its memory, as the end of a process does. */
async function dismantled({ app, database }: Process): Promise<void> {
  await app.close()
  await database.close()
}

/** A storage whose transactions wait, in order, and fail once it is cut. */
class Leash implements Storage {
  cut = false
  readonly #storage: Storage
  readonly #slowly: Slowly
  #earlier: Promise<unknown> = Promise.resolve()

  constructor(storage: Storage, slowly: Slowly) {
    this.#storage = storage
    this.#slowly = slowly
  }

  get location(): string {
    return this.#storage.location
  }

  get failure(): string | undefined {
    return this.#storage.failure
  }

  get = (key: string) => this.#storage.get(key)
  entries = (prefix: string, after?: string) => this.#storage.entries(prefix, after)
  count = (prefix: string) => this.#storage.count(prefix)

  transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    const writing = this.#earlier.then(async () => {
      await this.#slowly('a transaction begins')
      this.#check()
      return await this.#storage.transact(keys, work)
    })
    this.#earlier = writing.catch(() => {})
    return writing.then(async result => {
      await this.#slowly('a transaction is done')
      this.#check()
      return result
    })
  }

  close = () => this.#storage.close()

  #check(): void {
    if (this.cut) throw new Error('the process is gone')
  }
}
