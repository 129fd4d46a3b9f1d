// A tab whose requests meet with every fault of a network, and whose store may fail. Its client may be a mutant.

import type { MapEvent } from '@keyhush/client'
import {
  type Environment,
  type Fetch,
  noTabs,
  type OpenedStore,
  openWith,
  type StateStore,
  type StoragePreference,
} from '@keyhush/client/environment'
import { Disk } from '../disk.js'
import { responseOf, SERVERS, type ServerName as Server, splitUrl } from '../network.js'
import type { Question } from '../questions.js'
import { BLOB_MS } from '../simulation.js'
import { ClientTab, type Call as TabCall } from '../tab.js'
import { core } from './databases.js'
import type { Mutant } from './mutants.js'
import type { Delivered, Request } from './servers.js'
import type { World } from './world.js'

export type Call = TabCall<Tab, Question, Facts>

interface Facts {
  /** number of tabs when it began, if all others were dead; else 0 */
  readonly aloneAmong: number
  /** `troubles` when it began */
  readonly troublesBefore: number
}

export class Tab extends ClientTab<Tab, Question, Facts> {
  readonly environment: Environment
  /** in the order in which the app names them */
  readonly servers: readonly Server[]
  /** where its state is */
  disk: Disk | undefined
  /** requests without a proper reply in time, and failed calls of the disk */
  troubles = 0
  protected readonly world: World
  readonly #preference: StoragePreference
  readonly #mutant: Mutant

  constructor(world: World, number: number, preference: StoragePreference, mutant: Mutant) {
    super(number)
    const { chance } = world
    this.world = world
    this.#preference = preference
    this.#mutant = mutant
    this.servers = chance.happens(0.5) ? SERVERS : [...SERVERS].reverse()
    const clock = world.clockOf(this)
    const fetch: Fetch = (url, init) => this.#fetch(url, init)
    const place = { tab: this, disk: world.disk, chance, comes: (what: string) => this.comes(what) }
    this.environment = {
      clock,
      fetch: mutant.fetch?.(fetch) ?? fetch,
      random: bytes => {
        const drawn = chance.bytes(bytes)
        world.model.drew(this, drawn)
        return drawn.slice()
      },
      openStore: async (_identity, preference) => {
        await this.comes('the store opens')
        return this.#openStore(preference, store => mutant.store?.(store, place) ?? store)
      },
      tabs: noTabs,
      locks: world.locks?.of(this, clock) ?? { hold: (_name, _patience, task) => task() },
      loadCore: async () => {
        await this.comes('the core is loaded')
        return mutant.core?.(core, place) ?? core
      },
      pause: () => this.comes('a pause ends'),
    }
  }

  open(): void {
    const options = {
      servers: this.servers as [string, string],
      storage: this.#preference,
      rollback: this.world.faults.rollback,
      push: false,
      timeoutMs: Number.POSITIVE_INFINITY, // the model knows which call each query is of, for as long as it is under way
      onEvent: (event: MapEvent) => this.hear(event),
    }
    this.call('open', undefined, async signal => {
      const map = await openWith(this.environment, { mode: 'full', proofs: 'merkle', ...options, signal })
      this.map = this.#mutant.map?.(map, this) ?? map
    })
  }

  override reset(): Call {
    this.world.model.mayReset(this)
    return super.reset()
  }

  protected facts(): Facts {
    const { tabs } = this.world
    const aloneAmong = tabs.every(tab => tab === this || tab.state === 'dead') ? tabs.length : 0
    return { aloneAmong, troublesBefore: this.troubles }
  }

  protected override begins(call: Call): void {
    if (call.question) this.world.model.asked(call)
  }

  // ---- the network -------------------------------------------------------------------------------

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const world = this.world
    const { server, path, letter: name } = splitUrl(url)
    const body = init.body as Uint8Array | undefined
    const request: Request = { server, path, body: body?.slice() }
    const [what, reply] = wordsFor(request)
    world.model.sent(this, request)
    let whole = false
    init.signal?.addEventListener('abort', () => {
      if (!whole) this.troubles++
    })
    await this.comes(`${what} reaches ${name}`)
    if (path.startsWith('/v1/blobs/')) world.now += BLOB_MS
    const delivered = world.servers.reply(request)
    if (delivered === 'silence') return await world.never(this)
    if (delivered === 'lost connection') throw new TypeError('the connection is lost')
    if (delivered.remark !== 'in full') world.note(this, `${what} is answered by ${name}: ${delivered.remark}`)
    const read = () => {
      whole = isAsItShouldBe(delivered)
      if (!whole) this.troubles++
      if (delivered.word === undefined) return
      world.model.heard(this, delivered.word)
      world.count(`${delivered.word.verdict} ${request.path === '/v1/fence' ? 'by itself' : 'behind an answer'}`)
    }
    return this.#response(delivered, reply && `${reply} of ${name}`, read)
  }

  /** Calls `whole` when all of it has been read. */
  #response({ status, headers, body, broken }: Delivered, slowly: string | undefined, whole: () => void): Response {
    const pieces = [...body]
    const next = async () => {
      if (slowly) await this.comes(slowly)
      const value = pieces.shift()
      if (value === undefined && broken) throw new TypeError('the connection is lost')
      if (value === undefined) whole()
      return value?.slice()
    }
    return responseOf(status, headers, next, async () => void pieces.splice(0))
  }

  // ---- the store ---------------------------------------------------------------------------------

  #openStore(preference: StoragePreference, changed: (store: StateStore) => StateStore): OpenedStore {
    const world = this.world
    const durable = preference !== 'memory'
    if (durable && world.diskFails(this)) throw new Error('no store to be had')
    const disk = durable ? world.disk : new Disk(false)
    this.disk = disk
    const store = this.mount(disk, {
      inOrder: world.faults.storeInOrder,
      fails: method => disk.durable && world.diskFails(this, method),
      wrote: (...written) => world.model.wrote(this, disk, ...written),
      flushed: heads => world.model.flushed(heads),
    })
    return durable ? { store: changed(store), storage: 'best-effort' } : { store, storage: 'memory' }
  }
}

/** Names in the trace: of the request, and of a reply that takes its time. */
function wordsFor({ path, body }: Request): [string, string | undefined] {
  if (path === '/v1/fence') return ['claim', 'verdict']
  if (body) return ['query', 'answer']
  return [path.split('/')[2]!.replace(/\?.*/, ' of an epoch'), undefined]
}

function isAsItShouldBe({ status, remark }: Delivered): boolean {
  return status === 200 && ['in full', 'in two'].includes(remark)
}
