// Real servers: their databases, and the apps that answer for them. An app costs twenty times as much as a database, so that apps are
// kept and get one database after the other; each database has one of its own while it runs.

import { createServer, MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { PUBLISHER } from '../../support/publishing.js'
import type { Foundation } from '../living/databases.js'
import type { Asked, Reply } from '../living/servers.js'
import '../pace.js'
import { OTHER_PUBLISHER } from './keys.js'

/** Heartbeats of event streams, some each second, would come by the machine's clock. The world has its own (servers.ts). */
const HEARTBEAT_MILLISECONDS = 1000

/** An app whose database can be replaced. */
interface Mounted {
  readonly app: Awaited<ReturnType<typeof createServer>>
  readonly foundation: Foundation
  mount(database: UpdatableDatabase | undefined): void
}

const idle = new Map<Foundation, Mounted[]>()

/** Ends the apps that are kept. */
export async function endHosts(): Promise<void> {
  const apps = [...idle.values()].flat()
  idle.clear()
  for (const { app } of apps) await app.close()
}

async function mountedFor(foundation: Foundation, database: UpdatableDatabase): Promise<Mounted> {
  const kept = idle.get(foundation)?.pop()
  if (kept !== undefined) {
    kept.mount(database)
    return kept
  }
  let current: UpdatableDatabase | undefined = database
  let onFailure = (_error: Error) => {}
  const listeners = new Set<Listener>()
  const mount = (next: UpdatableDatabase | undefined) => {
    current = next
    if (next === undefined) return
    next.onFailure = onFailure
    next.signed.listen(event => {
      for (const listener of listeners) if (current === next) listener(event)
    })
  }
  const standIn = delegating(() => current!, {
    fence: delegating(() => current!.fence, {}),
    signed: delegating(() => current!.signed, {
      listen: (listener: Listener) => {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    }),
    set: (name, value) => {
      if (name === 'onFailure') onFailure = value as typeof onFailure
    },
  })
  const app = await withoutHeartbeats(() =>
    createServer({
      datasets: [{ updatable: standIn, publisherKeys: [PUBLISHER.publicKey, OTHER_PUBLISHER.publicKey] }],
      onTrap: error => {
        throw error
      },
    }),
  )
  mount(database)
  return { app, foundation, mount }
}

type Listener = Parameters<UpdatableDatabase['signed']['listen']>[0]

/** Stands for an object that may be another one later. */
function delegating<T extends object>(
  current: () => T,
  own: Record<string, unknown> & { readonly set?: (name: string, value: unknown) => void },
): T {
  return new Proxy({} as T, {
    get: (_target, name) => {
      if (typeof name === 'string' && name in own) return own[name]
      const member: unknown = Reflect.get(current(), name, current())
      return typeof member === 'function' ? member.bind(current()) : member
    },
    set: (_target, name, value) => {
      own.set?.(name as string, value)
      return Reflect.set(current(), name, value, current())
    },
  })
}

async function withoutHeartbeats<T>(work: () => Promise<T>): Promise<T> {
  const { setInterval: real } = globalThis
  globalThis.setInterval = ((callback: () => void, ms?: number, ...more: unknown[]) =>
    real(ms === HEARTBEAT_MILLISECONDS ? () => {} : callback, ms, ...more)) as typeof setInterval
  try {
    return await work()
  } finally {
    globalThis.setInterval = real
  }
}

export interface HostOptions {
  readonly foundation: Foundation
  readonly storage: MemoryStorage
  /** seconds since 1970, by this server's clock */
  readonly now: () => number
  readonly history: number
}

/** A server's process. */
export class Host {
  readonly database: UpdatableDatabase
  readonly #mounted: Mounted
  readonly #streams = new Set<AbortController>()

  private constructor(database: UpdatableDatabase, mounted: Mounted) {
    this.database = database
    this.#mounted = mounted
  }

  static async start({ foundation, storage, now, history }: HostOptions): Promise<Host> {
    const fence = { now, elapsed: now }
    const database = await UpdatableDatabase.open(storage, { history, now, fence })
    return new Host(database, await mountedFor(foundation, database))
  }

  get epoch(): number {
    return this.database.newest.manifest.epoch
  }

  async ask(path: string, { method, body, headers = {} }: Asked): Promise<Reply> {
    const payload = body && Buffer.from(body)
    const reply = await this.#mounted.app.inject({ method, url: path, headers, ...(payload && { payload }) })
    const named = Object.entries(reply.headers).map(([name, value]) => [name, `${value}`])
    return { status: reply.statusCode, headers: Object.fromEntries(named), body: new Uint8Array(reply.rawPayload) }
  }

  /** Calls `take` with each line of the stream of events. Returns how to end that. */
  async listen(take: (line: Uint8Array) => void): Promise<() => void> {
    const ends = new AbortController()
    const asked = { method: 'GET', url: '/v1/events', payloadAsStream: true, signal: ends.signal } as const
    const stream = (await this.#mounted.app.inject(asked)).stream()
    this.#streams.add(ends)
    stream.on('data', (line: Buffer) => take(new Uint8Array(line)))
    stream.on('error', () => {})
    return () => {
      this.#streams.delete(ends)
      ends.abort()
    }
  }

  /** The process ends; its storage stays. */
  async stop(): Promise<void> {
    for (const stream of this.#streams) stream.abort()
    this.#streams.clear()
    const { foundation } = this.#mounted
    await this.database.close()
    this.#mounted.mount(undefined)
    idle.set(foundation, [...(idle.get(foundation) ?? []), this.#mounted])
  }
}

/** What a storage has in it, in another one. */
export async function copyOf(storage: MemoryStorage): Promise<MemoryStorage> {
  const copy = new MemoryStorage()
  const entries: (readonly [string, Uint8Array])[] = []
  for await (const entry of storage.entries('')) entries.push(entry)
  await copy.transact([], transaction => {
    for (const [key, value] of entries) transaction.put(key, value)
  })
  return copy
}
