// One map on two in-memory servers, with every source of time, chance and storage under control.

import { type Core, loadCore } from '@keyhush/wasm'
import { onTestFinished } from 'vitest'
import type { KeyhushMap } from '../../src/index.js'
import { type Environment, MemoryStore, noTabs, type OpenWithOptions, openWith } from '../../src/testing.js'
import { drive, ManualClock } from './clock.js'
import { buildDatabase, type Contents, type Database, someValues } from './database.js'
import { A, B, Network } from './network.js'
import { seededRandom } from './random.js'

export const core: Core = await loadCore()

/** Merkle, where there is a choice. */
export function proofsWith({ mode, servers, collusion }: Partial<OpenWithOptions>): 'auto' | 'merkle' {
  const none = ['instant', 'local', 'single', 'filter'].includes(mode ?? '') || (servers?.length ?? 2) !== 2
  return none || collusion !== undefined ? 'auto' : 'merkle'
}

/** A memory store that writes down what it was told, in one list with the network's requests. */
export class LoggingStore extends MemoryStore {
  constructor(
    private readonly log: string[],
    durable = false,
  ) {
    super({ durable })
  }
  override async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    // Stored late, as a disk would: whoever does not wait sends before intent.
    for (let i = 0; i < 5; i++) await Promise.resolve()
    await super.putPending(hintId, version, pending)
    this.log.push(`stored ${version} ${hex(pending)}`)
  }
  override async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    const committed = await super.commit(hintId, version, effect)
    this.log.push(`committed ${version}`)
    return committed
  }
  override async condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    await super.condemn(hintId, culprit)
    this.log.push(`condemned ${culprit}`)
  }
}

export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** When mode `auto` makes a state, and which. */
export interface Planner {
  readonly pays?: Parameters<typeof openWith>[3]
  readonly choose?: Parameters<typeof openWith>[4]
}

export class Harness {
  readonly clock = new ManualClock()
  readonly log: string[] = []
  readonly stores: LoggingStore[] = []
  readonly environment: Environment
  /** closed when the test is over, if it has not done that */
  readonly left: KeyhushMap[] = []

  constructor(
    readonly network: Network,
    readonly seed = 1,
    change: Partial<Environment> = {},
  ) {
    this.environment = {
      clock: this.clock,
      fetch: (url, init) => {
        if (url.endsWith('/v1/answer')) this.log.push(`sent ${url}`)
        return network.fetch(url, init)
      },
      random: seededRandom(seed),
      openStore: async () => {
        const store = new LoggingStore(this.log)
        this.stores.push(store)
        return { store, storage: 'memory' }
      },
      locks: { hold: (_name, _patience, task) => task() },
      tabs: noTabs,
      loadCore: async () => core,
      pause: async () => {},
      ...change,
    }
    const { clock, left } = this
    onTestFinished(async () => {
      for (const map of left) await drive(clock, map.close())
    })
  }

  get store(): LoggingStore {
    return this.stores.at(-1)!
  }

  /** Calls wait until requests give up, unless `timeoutMs` says otherwise. */
  async open(options: Partial<OpenWithOptions> = {}, { pays, choose }: Planner = {}): Promise<KeyhushMap> {
    const timeoutMs = Number.POSITIVE_INFINITY
    const usual = { servers: [A, B], mode: 'full', proofs: proofsWith(options), timeoutMs } as const
    const given = { ...usual, ...options }
    const map = await this.drive(openWith(this.environment, given, undefined, pays, choose))
    this.left.push(map)
    return map
  }

  drive = <T>(work: Promise<T>): Promise<T> => drive(this.clock, work)

  /** The error a call fails with. */
  failure(work: Promise<unknown>): Promise<Failure> {
    return this.drive(failureOf(work))
  }

  /** A lookup that fails: the error, and everything that the caller and the servers could notice. */
  async failingLookup(map: KeyhushMap, index: number) {
    const start = this.clock.now()
    const error = await this.failure(map.at(index))
    const seen = {
      error: `${error.name} ${error.code} ${error.server} ${error.message}`,
      traffic: this.network.shapes(),
      steps: this.log.map(line => line.replace(/[0-9a-f]{30,}/, '')),
      ms: this.clock.now() - start,
      stats: map.stats.incidents,
    }
    return { error, seen }
  }
}

/** A core whose hints, once they are made, have some members of a test's. */
export function withHandles<Builder extends 'newHintBuilder' | 'newSingleBuilder'>(
  builder: Builder,
  member: (handle: ReturnType<ReturnType<Core[Builder]>['finish']>, name: string | symbol) => unknown,
): Core {
  const proxied = <T extends object>(target: T, instead: (name: string | symbol) => unknown): T =>
    new Proxy(target, {
      get(target, name) {
        const found = instead(name) ?? Reflect.get(target, name, target)
        return typeof found === 'function' ? found.bind(target) : found
      },
    })
  const make = core[builder] as (...parameters: unknown[]) => { finish(version: number): object }
  const making = (...parameters: unknown[]) => {
    const made = make(...parameters)
    const finish = (version: number) => {
      const handle = made.finish(version) as Parameters<typeof member>[0]
      return proxied(handle, name => member(handle, name))
    }
    return proxied(made, name => (name === 'finish' ? finish : undefined))
  }
  return { ...core, [builder]: making }
}

/** A map on these servers, and its harness. */
export async function openedOn<T extends { readonly network: Network }>(
  servers: T,
  options: Partial<OpenWithOptions> = {},
  seed = 1,
): Promise<T & { harness: Harness; map: KeyhushMap }> {
  const harness = new Harness(servers.network, seed)
  return { ...servers, harness, map: await harness.open(options) }
}

/** The error with which a map on these servers does not open. */
export async function refusedBy(
  { network }: { readonly network: Network },
  options: Partial<OpenWithOptions> = {},
): Promise<Failure> {
  const harness = new Harness(network)
  return await harness.failure(harness.open(options))
}

export async function failureOf(work: Promise<unknown>): Promise<Failure> {
  return await work.then(
    value => {
      throw new Error(`expected a failure, got ${String(value)}`)
    },
    (error: unknown) => error as Failure,
  )
}

export interface Failure extends Error {
  readonly code: string
  readonly server?: string
  readonly retryAfterMs?: number
}

/** Both servers with the same databases, newest last. */
export function sameOnBoth(...databases: Database[]): Network {
  return new Network({ [A]: databases, [B]: databases })
}

/** A keyless database of `count` values of 5 bytes in partitions of 4, on both servers. */
export function keyless(count = 15, change: Partial<Contents> = {}): { database: Database; network: Network } {
  const database = buildDatabase(core, { values: someValues(count, 5), partitions: Math.ceil(count / 4), ...change })
  return { database, network: sameOnBoth(database) }
}

export const NAMES = Array.from({ length: 20 }, (_, i) => `name-${i}.example`)

/** A keyed database of 20 names with values of different lengths, on both servers. */
export function keyed(change: Partial<Contents> = {}): { database: Database; network: Network } {
  const values = NAMES.map((_, i) => new TextEncoder().encode('v'.repeat(i)))
  const database = buildDatabase(core, { keys: NAMES, values, variable: true, partitions: 5, ...change })
  return { database, network: sameOnBoth(database) }
}
