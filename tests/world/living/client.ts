// A tab of a database that changes. It hears of other tabs and of epochs; its core's random bytes and directories are watched.

import type { KeyhushMap, MapEvent } from '@keyhush/client'
import { type Environment, openWith, type StateStore } from '@keyhush/client/environment'
import {
  type AskedHandle,
  type ClientHandle,
  loadCore,
  type ServerDirectoryHandle,
  type SingleHandle,
} from '@keyhush/wasm'
import { Company } from '../company.js'
import { Disk, type OnWrite } from '../disk.js'
import { Locks } from '../locks.js'
import { responseOf, SERVERS, type ServerName, splitUrl } from '../network.js'
import type { Question } from '../questions.js'
import { BLOB_MS } from '../simulation.js'
import { ClientTab, type Call as TabCall } from '../tab.js'
import { Draws } from './audit.js'
import type { Stream } from './servers.js'
import type { World } from './world.js'

export const core = await loadCore()

/** What the tabs of one browser share. */
export class Profile {
  readonly disk = new Disk(true)
  readonly tabs = new Company()
  readonly locks: Locks | undefined
  constructor(withLocks: boolean) {
    this.locks = withLocks ? new Locks() : undefined
  }
}

export type Call = TabCall<Tab, Question, Facts>

interface Facts {
  /** undefined: there was none yet */
  readonly map: KeyhushMap | undefined
  /** the newest epoch that both servers had confirmed when it began */
  readonly agreed: number
  /** nothing was published from its beginning to its end */
  calm: boolean
  /** misfortunes there had been when it began */
  readonly misfortunes: number
}

export class Tab extends ClientTab<Tab, Question, Facts> {
  readonly environment: Environment
  readonly draws = new Draws()
  readonly #streams = new Set<Stream>()
  /** of the last lookup that it has made, and rows that it has read since */
  #queries = 0
  #rowsRead = 0
  /** key directories in its memory */
  readonly directories = new Set<ServerDirectoryHandle>()
  /** where its state is */
  disk: Disk
  protected readonly world: World

  constructor(
    world: World,
    number: number,
    readonly profile: Profile,
  ) {
    super(number)
    const { chance } = world
    this.world = world
    this.disk = profile.disk
    const clock = world.clockOf(this)
    this.environment = {
      clock,
      fetch: (url, init) => this.#fetch(url, init),
      random: bytes => {
        const drawn = chance.bytes(bytes)
        this.draws.drew(drawn)
        return drawn.slice()
      },
      openStore: async (_identity, preference) => {
        const durable = preference !== 'memory'
        if (!durable) this.disk = new Disk(false)
        const store = this.#mountOn(this.disk)
        if (!durable) return { store, storage: 'memory' }
        return { store, storage: 'best-effort', preparers: profile.tabs.preparers(this) }
      },
      locks: profile.locks?.of(this, clock) ?? { hold: (_name, _patience, task) => task() },
      tabs: profile.tabs.of(this),
      loadCore: async () => this.#watchedCore(),
      pause: () => this.comes('a pause ends'),
    }
  }

  open(): Call {
    const { chance, faults } = this.world
    const options = {
      servers: (chance.happens(0.5) ? SERVERS : [...SERVERS].reverse()) as [string, string],
      storage: faults.storage,
      mode: faults.mode,
      // Few enough that they run out.
      ...(faults.mode === 'single' && ({ collusion: 'tolerated', lookups: 48 } as const)),
      proofs: faults.mode === 'full' ? faults.proofs : ('auto' as const),
      rollback: faults.rollback,
      push: faults.push,
      onEvent: (event: MapEvent) => this.hear(event),
    }
    return this.call('open', undefined, async signal => {
      this.map = await openWith(this.environment, { ...options, signal })
    })
  }

  sync(): Call {
    return this.call('sync', undefined, signal => this.map!.sync({ signal }))
  }

  /** Another tab has sent a message. */
  async hears(listener: () => void): Promise<void> {
    await this.comes('a word of another tab').then(listener, () => {})
  }

  /** Its connections are closed, as those of a process that has ended. */
  hangUp(): void {
    for (const stream of this.#streams) stream.end()
  }

  protected facts(): Facts {
    const { publisher, misfortunes, troubled } = this.world
    const { agreed, atRest: calm } = publisher
    return { map: this.map, agreed, calm, misfortunes: misfortunes - (troubled ? 1 : 0) }
  }

  // ---- the network -------------------------------------------------------------------------------

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const world = this.world
    const { server, path, letter: name } = splitUrl(url)
    const body = (init.body as Uint8Array | undefined)?.slice()
    const what = path.replace(/^\/v1\//, '').replace(/(blobs\/.{4}).*/, '$1')
    if (path === '/v1/events') return await this.#listen(server, name, init.signal!)
    if (path === '/v1/answer' && this.state !== 'dead') world.audit.sent(server, body!, this.disk.durable)
    await this.comes(`${what} reaches ${name}`)
    if (path.startsWith('/v1/blobs/')) world.now += BLOB_MS
    const reply = await world.asked(server, path, { method: body ? 'POST' : 'GET', body })
    await this.comes(`${name} on ${what}: ${reply.status}`)
    const pieces = [reply.body]
    return responseOf(reply.status, reply.headers, async () => pieces.shift()?.slice())
  }

  /** A stream of events, of which every line takes its time. */
  async #listen(server: ServerName, name: string, signal: AbortSignal): Promise<Response> {
    await this.comes(`events reach ${name}`)
    const stream = await this.world.listened(server)
    this.#streams.add(stream)
    signal.addEventListener('abort', () => {
      stream.end()
      this.#streams.delete(stream)
    })
    let before = ''
    return responseOf(200, {}, async () => {
      for (;;) {
        const line = await stream.next()
        // Repeated lines come by this machine's clock. They are skipped, so that a seed stays a schedule.
        if (line !== undefined && `${line}` === before) continue
        before = `${line}`
        await this.comes(`a line of ${name}`)
        return line
      }
    })
  }

  // ---- the store ---------------------------------------------------------------------------------

  #mountOn(disk: Disk): StateStore {
    const { world } = this
    return this.mount(disk, {
      inOrder: true,
      fails: () => false,
      wrote: (...written) => {
        this.#intends(...written)
        return world.wrote(this, ...written)
      },
      flushed: heads => world.audit.flushed(heads),
      count: what => {
        if (what === 'store: readRow') this.#rowsRead++
        world.count(what)
      },
    })
  }

  /** With tags in rows, one row is read for each query before its lookup is stored. */
  #intends(...[{ method }, before]: Parameters<OnWrite>): void {
    const { faults } = this.world
    if (method !== 'putPending' || before?.pending !== undefined || faults.mode !== 'single' || !faults.rows) return
    if (this.#rowsRead >= this.#queries) return
    this.world.violate(`${this.name} stores ${this.#queries} queries, and ${this.#rowsRead} rows were read for it`)
  }

  // ---- the core ----------------------------------------------------------------------------------

  /** The core, with its random bytes and directories watched. */
  #watchedCore(): typeof core {
    const asClient = (client: ClientHandle) => this.#watchedClient(client)
    const asSingle = (single: SingleHandle) => this.#watchedQueries(single)
    return {
      ...core,
      decodeDirectory: (bytes, records) => this.#watchedDirectory(core.decodeDirectory(bytes, records)),
      newHintBuilder: (layout, commitments, contentHashes, entropy, proofs) => {
        this.#use(entropy)
        return this.#making(core.newHintBuilder(layout, commitments, contentHashes, entropy, proofs), asClient)
      },
      resumeHintBuilder: (...stored) => this.#making(core.resumeHintBuilder(...stored), asClient),
      reopenClient: (...stored) => this.#watchedClient(core.reopenClient(...stored)),
      newSingleBuilder: (layout, contentHashes, entropy, lookups) => {
        this.#use(entropy)
        const { rows } = this.world.faults
        return this.#making(core.newSingleBuilder(layout, contentHashes, entropy, lookups, rows), asSingle)
      },
      resumeSingleBuilder: (...stored) => this.#making(core.resumeSingleBuilder(...stored), asSingle),
      reopenSingle: (...stored) => this.#making(core.reopenSingle(...stored), asSingle),
    }
  }

  /** A maker of handles, each of which is watched. */
  #making<P extends unknown[], H, M extends { finish(...all: P): H }>(maker: M, watched: (handle: H) => H): M {
    const finish = maker.finish.bind(maker)
    return Object.assign(maker, { finish: (...all: P) => watched(finish(...all)) })
  }

  #watchedQueries<H extends AskedHandle>(handle: H): H {
    const query = handle.query.bind(handle)
    return Object.assign(handle, {
      query: (indices: Uint32Array, entropy: Uint8Array) => {
        this.#use(entropy)
        this.#queries = indices.length
        this.#rowsRead = 0
        query(indices, entropy)
      },
    })
  }

  #watchedClient(client: ClientHandle): ClientHandle {
    const update = client.update.bind(client)
    return Object.assign(this.#watchedQueries(client), {
      update: (...[list, after, commitments, entropy]: Parameters<ClientHandle['update']>) => {
        this.#use(entropy)
        return update(list, after, commitments, entropy)
      },
    })
  }

  #watchedDirectory(directory: ServerDirectoryHandle): ServerDirectoryHandle {
    const { updated, replayed, free } = directory
    this.directories.add(directory)
    return Object.assign(directory, {
      updated: (...change: Parameters<typeof updated>) => this.#watchedDirectory(updated.apply(directory, change)),
      replayed: (...change: Parameters<typeof replayed>) => {
        const next = replayed.apply(directory, change)
        return next && this.#watchedDirectory(next)
      },
      free: () => {
        this.directories.delete(directory)
        free.call(directory)
      },
    })
  }

  #use(entropy: Uint8Array): void {
    try {
      this.draws.use(entropy)
    } catch (error) {
      this.world.violate(`${this.name}: ${(error as Error).message}`)
    }
  }
}
