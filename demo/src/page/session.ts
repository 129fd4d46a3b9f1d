// One open map: looks up in it, and keeps what was sent for each lookup.

import { type KeyhushMap, type OnEvent, open } from '@keyhush/client'
import type { Config, ServerName } from './backstage.js'
import type { Database, Verdict } from './databases.js'
import { type Exchange, type Fetch, Recorder } from './wire/recorder.js'

/** A lookup that has ended: with a verdict, or with the SDK's error. */
export interface Ended {
  readonly key: string
  readonly exchanges: readonly Exchange[]
  readonly result: { readonly verdict: Verdict } | { readonly error: unknown }
  readonly cost: { readonly ms: number; readonly bytesUp: number; readonly bytesDown: number }
}

const LOOKUP = /\/v1\/(instant|one-server|evaluate)$/

/** What a map is opened with beside its servers. */
export interface Ways {
  readonly onEvent?: OnEvent
  /** default: A and B */
  readonly servers?: readonly ServerName[]
  /** sends the requests */
  readonly onwards?: Fetch
  /** makes the map that is asked of the one that is opened */
  readonly wrap?: (map: KeyhushMap, fetch: Fetch) => KeyhushMap
}

export class Session {
  readonly database: Database
  readonly recorder: Recorder
  readonly #config: Config
  readonly #ways: Ways
  readonly servers: readonly ServerName[]
  #map: Promise<KeyhushMap> | undefined
  /** settles after the last lookup: what is sent meanwhile belongs to it */
  #turn: Promise<unknown> = Promise.resolve()
  /** the last lookup that found something, and the last that found nothing */
  readonly last: { found?: Ended; absent?: Ended } = {}

  constructor(database: Database, config: Config, ways: Ways = {}) {
    const { servers = ['A', 'B'], onwards } = ways
    this.database = database
    this.#config = config
    this.#ways = ways
    this.servers = servers
    this.recorder = new Recorder(Object.fromEntries(servers.map(name => [name, this.urlAt(name)])), onwards)
  }

  urlAt(server: ServerName): string {
    return `${this.#config.servers[server]}/${this.database.name}`
  }

  /** Opens the map, once. A failure is not kept: the next call tries again. */
  open(): Promise<KeyhushMap> {
    const { publisherKey } = this.#config
    const { onEvent = () => {}, wrap = map => map } = this.#ways
    this.#map ??= open({
      servers: this.servers.map(name => this.urlAt(name)),
      fetch: this.recorder.fetch,
      ...(publisherKey !== undefined && { publisherKey }),
      // By default the SDK would download so small a list, and then there is nothing to see.
      ...(this.servers.length === 1 ? { mode: 'instant', experimental: true } : { download: 'never' }),
      onEvent,
    }).then(map => wrap(map, this.recorder.fetch))
    this.#map.catch(() => {
      this.#map = undefined
    })
    return this.#map
  }

  /** Looks up a key, after earlier lookups. Rejects only if the map cannot be opened. */
  ask(key: string): Promise<Ended> {
    const ended = this.#turn.then(() => this.#ask(key))
    this.#turn = ended.catch(() => {})
    return ended
  }

  async #ask(key: string): Promise<Ended> {
    const map = await this.open()
    const before = this.recorder.count
    const result = await this.database.ask(map, key).then(
      verdict => ({ verdict }),
      (error: unknown) => ({ error }),
    )
    const exchanges = (await this.recorder.since(before)).filter(({ path }) => LOOKUP.test(path))
    const { ms, bytesUp, bytesDown } = map.stats.lastLookup ?? { ms: 0, bytesUp: 0, bytesDown: 0 }
    const ended = { key, exchanges, result, cost: { ms, bytesUp, bytesDown } }
    if ('verdict' in result) this.last[result.verdict.kind === 'absent' ? 'absent' : 'found'] = ended
    return ended
  }

  async close(): Promise<void> {
    await this.#map?.then(map => map.close())
    this.#map = undefined
  }
}
