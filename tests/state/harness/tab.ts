// One life of the client: a tab, from its opening until it is closed or killed. The SDK in it is the real one; whatever
// it asks of its environment happens when the world says so, or never.

import type { MapEvent, PirouetteMap } from '@pirouette/client'
import {
  type Clock,
  type Environment,
  type Fetch,
  noTabs,
  type OpenedStore,
  openWith,
  type StateStore,
  type StoragePreference,
} from '@pirouette/client/environment'
import { core } from './databases.js'
import { Disk, type Method } from './disk.js'
import type { Plant } from './plants.js'
import type { Question } from './questions.js'
import { type Delivered, type Request, SERVERS, type Server } from './servers.js'
import type { World } from './world.js'

/** What somebody waits for. */
export interface Call {
  readonly tab: Tab
  readonly what: string
  /** undefined: it is not a lookup */
  readonly question: Question | undefined
  readonly giveUp: AbortController
  /** tabs there had been when it began, if all others were dead; else 0 */
  readonly aloneAmong: number
  /** of this tab, when it began */
  readonly troublesBefore: number
  outcome: Outcome | undefined
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

export class Tab {
  readonly name: string
  readonly environment: Environment
  /** as the app names them: in either order */
  readonly servers: readonly Server[]
  readonly calls: Call[] = []
  readonly events: MapEvent[] = []
  map: PirouetteMap | undefined
  /** where its state is */
  disk: Disk | undefined
  state: 'running' | 'frozen' | 'dead' = 'running'
  /** requests that a server has not answered as it should, or not in time */
  troubles = 0
  readonly #world: World
  readonly #preference: StoragePreference
  readonly #plant: Plant

  constructor(world: World, number: number, preference: StoragePreference, plant: Plant) {
    const { chance } = world
    this.#world = world
    this.#preference = preference
    this.#plant = plant
    this.name = `tab ${number}`
    this.servers = chance.happens(0.5) ? SERVERS : [...SERVERS].reverse()
    const clock: Clock = {
      now: () => world.now,
      date: () => 1_795_000_000_000 + world.now,
      setTimeout: (callback, ms) => world.startTimer(this, callback, ms),
      clearTimeout: timer => world.stopTimer(timer),
    }
    const fetch: Fetch = (url, init) => this.#fetch(url, init)
    const place = { tab: this, disk: world.disk, chance, comes: (what: string) => this.#comes(what) }
    this.environment = {
      clock,
      fetch: plant.fetch?.(fetch) ?? fetch,
      random: bytes => {
        const drawn = chance.bytes(bytes)
        world.model.drew(this, drawn)
        return drawn.slice()
      },
      openStore: async (_identity, preference) => {
        await this.#comes('the store opens')
        return this.#openStore(preference, store => plant.store?.(store, place) ?? store)
      },
      tabs: noTabs,
      locks: world.locks?.of(this, clock) ?? { hold: (_name, _patience, task) => task() },
      loadCore: async () => {
        await this.#comes('the core is loaded')
        return plant.core?.(core, place) ?? core
      },
      pause: () => this.#comes('a pause ends'),
    }
  }

  /** Calls somebody waits for. */
  get waiting(): number {
    return this.calls.filter(({ outcome }) => outcome === undefined).length
  }

  get opening(): boolean {
    return this.calls.some(({ what, outcome }) => what === 'open' && outcome === undefined)
  }

  open(): void {
    const options = {
      servers: this.servers as [string, string],
      storage: this.#preference,
      rollback: this.#world.weather.rollback,
      push: false,
      onEvent: (event: MapEvent) => this.#hear(event),
    }
    this.#call('open', undefined, async signal => {
      const map = await openWith(this.environment, { proofs: 'merkle', ...options, signal })
      this.map = this.#plant.map?.(map, this) ?? map
    })
  }

  ask(question: Question): Call {
    return this.#call(question.what, question, signal => question.ask(this.map!, signal))
  }

  reset(): void {
    this.#world.model.mayReset(this)
    this.#call('reset', undefined, signal => this.map!.reset({ signal }))
  }

  close(): void {
    const { map } = this
    this.map = undefined
    this.#call('close', undefined, () => map!.close())
  }

  #call(what: string, question: Question | undefined, work: (signal: AbortSignal) => Promise<unknown>): Call {
    const { tabs } = this.#world
    const aloneAmong = tabs.every(tab => tab === this || tab.state === 'dead') ? tabs.length : 0
    const call: Call = {
      tab: this,
      what,
      question,
      giveUp: new AbortController(),
      aloneAmong,
      troublesBefore: this.troubles,
      outcome: undefined,
    }
    this.calls.push(call)
    this.#world.note(this, `${what} …`)
    if (question) this.#world.model.asked(call)
    const end = (outcome: Outcome) => {
      if (this.state === 'dead') return
      call.outcome = outcome
      this.#world.ended(call, outcome)
    }
    work(call.giveUp.signal).then(
      value => end({ value }),
      error => end({ error }),
    )
    return call
  }

  #hear(event: MapEvent): void {
    this.events.push(event)
    const what = Object.values(event).join(' ')
    this.#world.note(this, `hears: ${what}`)
    this.#world.count(`event: ${event.type === 'condemned' ? 'condemned' : what}`)
  }

  #comes(what: string): Promise<void> {
    return this.#world.comes(this, what)
  }

  // ---- the network -------------------------------------------------------------------------------

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const world = this.#world
    const server = SERVERS.find(name => url.startsWith(name))!
    const body = init.body as Uint8Array | undefined
    const request: Request = { server, path: url.slice(server.length), body: body?.slice() }
    const name = server === SERVERS[0] ? 'A' : 'B'
    const [what, reply] = wordsFor(request)
    world.model.sent(this, request)
    let whole = false
    init.signal?.addEventListener('abort', () => {
      if (!whole) this.troubles++
    })
    await this.#comes(`${what} reaches ${name}`)
    const delivered = world.servers.reply(request)
    if (delivered === 'silence') return await world.never(this)
    if (delivered === 'lost connection') throw new TypeError('the connection is lost')
    if (delivered.remark !== 'in full') world.note(this, `${what} is answered by ${name}: ${delivered.remark}`)
    const read = () => {
      whole = isAsItShouldBe(delivered)
      if (delivered.word === undefined) return
      world.model.heard(this, delivered.word)
      world.count(`${delivered.word.verdict} ${request.path === '/v1/fence' ? 'by itself' : 'behind an answer'}`)
    }
    // The platform's own Response takes its time from the event loop.
    return this.#response(delivered, reply && `${reply} of ${name}`, read) as unknown as Response
  }

  /** `whole` is called when all of it has been read. */
  #response({ status, headers, body, broken }: Delivered, slowly: string | undefined, whole: () => void) {
    const pieces = [...body]
    const read = async () => {
      if (slowly) await this.#comes(slowly)
      const value = pieces.shift()
      if (value === undefined && broken) throw new TypeError('the connection is lost')
      if (value === undefined) whole()
      return value === undefined ? { done: true } : { done: false, value: value.slice() }
    }
    const cancel = async () => void pieces.splice(0)
    return { status, headers: new Headers(headers), redirected: false, body: { getReader: () => ({ read }), cancel } }
  }

  // ---- the store ---------------------------------------------------------------------------------

  #openStore(preference: StoragePreference, planted: (store: StateStore) => StateStore): OpenedStore {
    const world = this.#world
    const durable = preference !== 'memory'
    if (durable && world.diskFails(this)) throw new Error('no store to be had')
    const disk = durable ? world.disk : new Disk(false)
    this.disk = disk
    const store = this.#mount(disk)
    return durable ? { store: planted(store), storage: 'best-effort' } : { store, storage: 'memory' }
  }

  /** The disk, at some distance: a call takes its time before it is carried out, and again until it is reported. */
  #mount(disk: Disk): StateStore {
    const world = this.#world
    let earlier = Promise.resolve()
    const call = async (method: Method, parameters: unknown[]) => {
      if (method === 'close') return
      const named = `${method}${typeof parameters[1] === 'number' ? ` ${parameters[1]}` : ''}`
      let begun = () => {}
      const inTurn = world.weather.storeInOrder ? earlier : undefined
      earlier = new Promise(resolve => {
        begun = resolve
      })
      await inTurn
      await this.#comes(`${named} begins`).finally(begun)
      if (disk.durable && world.diskFails(this, method)) throw new Error('the disk has failed')
      const done = await disk
        .perform(method, parameters, (...written) => world.model.wrote(this, disk, ...written))
        .catch((error: Error) => {
          world.note(this, `${named} is refused: ${error.message}`)
          world.count(`refused: ${method}`)
          return error
        })
      await this.#comes(`${named} is done`)
      if (done instanceof Error) throw done
      world.count(`store: ${method}`)
      if (disk.durable && world.diskFails(this, method)) throw new Error('the disk has failed, perhaps')
      world.model.flushed(disk.flush(done.flush))
      return world.journalsLookLong(done.result)
    }
    return new Proxy({ durable: disk.durable } as StateStore, {
      get: (target, name: keyof StateStore) =>
        name === 'durable' ? target.durable : (...parameters: unknown[]) => call(name, parameters),
    })
  }
}

/** What a request, and a reply that is waited for at length, are called in the trace. */
function wordsFor({ path, body }: Request): [string, string | undefined] {
  if (path === '/v1/fence') return ['claim', 'verdict']
  if (body) return ['query', 'answer']
  return [path.split('/')[2]!.replace(/\?.*/, ' of an epoch'), undefined]
}

function isAsItShouldBe({ status, remark }: Delivered): boolean {
  return status === 200 && ['in full', 'in two'].includes(remark)
}
