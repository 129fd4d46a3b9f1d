// The SDK on two real servers with a proxy before each. The test controls its time and randomness.
//
// Time stands still while a request is under way. The earliest timer runs only when none is, or when proxies hold all of them.
// So deadlines and pauses take no time, and no outcome depends on the speed of the machine.

import type { KeyhushMap } from '@keyhush/client'
import {
  type Environment,
  MemoryStore,
  noTabs,
  type OpenWithOptions,
  openWith,
  platformEnvironment,
} from '@keyhush/client/environment'
import { ManualClock } from '../../packages/client/test/support/clock.js'
import { Words } from '../interop/reference/random.js'
import { stream } from '../interop/vectors.js'
import { LyingProxy, NUMBER_HEADER } from './proxy.js'
import { type Data, type ServerPair, startPair } from './servers.js'

export class Rig {
  private constructor(
    private readonly servers: ServerPair,
    readonly proxies: readonly [LyingProxy, LyingProxy],
  ) {}

  /** `living`: see `startPair` */
  static async start(data: Data, kind: { readonly living?: boolean } = {}): Promise<Rig> {
    const servers = await startPair(data, kind)
    return new Rig(servers, [await LyingProxy.start(servers.urls[0]), await LyingProxy.start(servers.urls[1])])
  }

  async close(): Promise<void> {
    for (const proxy of this.proxies) await proxy.close()
    await this.servers.close()
  }

  /** A client, random by `seed` or the platform; proxies are honest again. `durable`: opened again, it finds its state. */
  client(seed?: string, { durable = false } = {}): RigClient {
    for (const proxy of this.proxies) {
      proxy.lie = undefined
      proxy.seen.length = 0
      proxy.held.clear()
    }
    return new RigClient(this.proxies, seed, durable)
  }
}

/** What happens between the SDK and the network, in order. */
export type NetworkEvent = 'fetch called' | 'response begun' | 'response read' | 'request failed'

export type RigOptions = Omit<OpenWithOptions, 'servers'>

export class RigClient {
  readonly events: { readonly kind: NetworkEvent; readonly url: string }[] = []
  /** where the SDK keeps its state */
  readonly store: MemoryStore
  readonly #proxies: readonly [LyingProxy, LyingProxy]
  readonly #environment: Environment
  readonly #clock = new ManualClock()
  readonly #underWay = new Set<string>()
  #requests = 0

  constructor(proxies: readonly [LyingProxy, LyingProxy], seed: string | undefined, durable: boolean) {
    this.#proxies = proxies
    this.store = new MemoryStore({ durable })
    this.#environment = {
      ...platformEnvironment((url, init) => this.#fetch(url, init)),
      clock: this.#clock,
      openStore: async () => ({ store: this.store, storage: durable ? 'best-effort' : 'memory' }),
      locks: { hold: (_name, _patience, task) => task() },
      tabs: noTabs,
      ...(seed !== undefined && { random: seededRandom(seed) }),
    }
  }

  open(options: RigOptions = {}): Promise<KeyhushMap> {
    const [a, b] = this.#proxies
    const servers = [a.url, b.url] as const
    const timeoutMs = Number.POSITIVE_INFINITY // until requests give up
    return this.run(openWith(this.#environment, { mode: 'full', timeoutMs, ...options, servers }))
  }

  /** Which server has been drawn as the refresh server of the hint that is stored. */
  async refreshServer(): Promise<0 | 1> {
    const { record } = (await this.store.read())!
    return record.parties[1] === this.#proxies[0].url ? 0 : 1
  }

  /** Lets time go on until `work` has settled. */
  async run<T>(work: Promise<T>): Promise<T> {
    let settled = false
    const settle = () => {
      settled = true
    }
    work.then(settle, settle)
    for (let idleTurns = 0; !settled; ) {
      await new Promise(resolve => void setImmediate(resolve))
      idleTurns = this.#nothingCanGoOn() ? idleTurns + 1 : 0
      // A few turns for what the end of a request started.
      if (idleTurns < 10) continue
      if (this.#clock.waiting === 0) continue
      this.#clock.advance()
      idleTurns = 0
    }
    return await work
  }

  /** The error of `work`. */
  async failure(work: Promise<unknown>): Promise<Failure> {
    const value = await this.run(work.catch((error: Failure) => ({ failedWith: error }) as const))
    if (typeof value === 'object' && value !== null && 'failedWith' in value) return value.failedWith as Failure
    throw new Error(`expected a failure, got ${String(value)}`)
  }

  /** Whether proxies hold all requests under way. */
  #nothingCanGoOn(): boolean {
    return [...this.#underWay].every(number => this.#proxies.some(({ held }) => held.has(number)))
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const number = `${++this.#requests}`
    const headers = new Headers(init.headers)
    headers.set(NUMBER_HEADER, number)
    const note = (kind: NetworkEvent) => {
      if (kind === 'fetch called') this.#underWay.add(number)
      if (kind === 'response read' || kind === 'request failed') this.#underWay.delete(number)
      this.events.push({ kind, url })
    }
    note('fetch called')
    try {
      const response = await fetch(url, { ...init, headers })
      note('response begun')
      return watched(response, init.signal, whole => note(whole ? 'response read' : 'request failed'))
    } catch (error) {
      note('request failed')
      throw error
    }
  }
}

export interface Failure extends Error {
  readonly code: string
  readonly server?: string
}

/** The same response; calls `ended` once, with whether its body was read to its declared end. */
function watched(
  response: Response,
  signal: AbortSignal | null | undefined,
  ended: (whole: boolean) => void,
): Response {
  let over = false
  const end = (whole: boolean) => {
    if (!over) ended(whole)
    over = true
  }
  if (response.body === null) {
    end(true)
    return response
  }
  signal?.addEventListener('abort', () => end(false))
  const reader = response.body.getReader()
  let left = Number(response.headers.get('content-length') ?? Number.POSITIVE_INFINITY)
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          left -= value?.length ?? 0
          if (done || left === 0) end(true)
          if (done) controller.close()
          else controller.enqueue(value)
        } catch (error) {
          controller.error(error)
          end(false)
        }
      },
      async cancel(reason) {
        end(false)
        await reader.cancel(reason)
      },
    },
    { highWaterMark: 0 },
  )
  // A new Response would lose `redirected` and the URL.
  return Object.defineProperty(response, 'body', { value: body })
}

function seededRandom(seed: string): Environment['random'] {
  const words = new Words(stream(seed, 32), 0)
  return bytes => Uint8Array.from({ length: bytes }, () => words.next() & 0xff)
}
