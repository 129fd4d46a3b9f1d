// The publisher's machine, disturbed at every effect: each request and each write of the record. It is killed before or after the effect,
// or the request or its reply is lost, or the request arrives while the next run is under way. Another run heals what was left.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTask } from 'node:timers/promises'
import { decodeBatch, decodeManifest, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import {
  createServer,
  MemoryStorage,
  PublishError,
  PublisherRecord,
  type PublishSummary,
  publish,
  STEPS,
  UpdatableDatabase,
} from '../dist/index.js'
import { builtDirectory, createIn } from './helpers.js'
import { KEYED } from './updatable-helpers.js'

const SECOND = ed25519.keygen(new Uint8Array(32).fill(8))

const line = (operation: object) => `${JSON.stringify(operation)}\n`
const RUNS = {
  nothing: undefined,
  edit: line({ op: 'edit', key: 'one', value: 'edited' }),
  other: line({ op: 'edit', key: 'two', value: 'another' }),
  // Three keys make 16 partitions of one record: with 18 more a new generation pays.
  grow: Array.from({ length: 18 }, (_, i) => line({ op: 'add', key: `new ${i}`, value: 'x' })).join(''),
  generation: line({ op: 'generation', headroom: 40 }),
  renew: line({ op: 'renew' }),
} as const
type Run = keyof typeof RUNS

/** What happens at an effect. */
const FATES = ['killed before', 'killed after', 'request lost', 'reply lost', 'late'] as const
interface Disturbance {
  readonly effect: number
  readonly fate: (typeof FATES)[number]
  /** `late`: the request arrives before this effect of the next run */
  readonly arrives: number
}

/** `npm test` takes one of so many cases. */
const SAMPLE = 16

class Killed extends Error {}

interface Server {
  readonly inject: (method: 'GET' | 'POST', path: string, headers: object, payload?: Buffer) => Promise<Response>
  epoch: number
  /** `epoch key` */
  readonly signed: Set<string>
  readonly close: () => Promise<void>
}

const operationsOf = (batch: Uint8Array) => Buffer.from(decodeBatch(batch).operations).toString()

/** Servers, a record, and the two rules that hold at any moment. */
class World {
  readonly servers = new Map<string, Server>()
  readonly record = new (class extends PublisherRecord {
    constructor(readonly world: World) {
      super()
    }
    override addManifest(...args: Parameters<PublisherRecord['addManifest']>): Promise<void> {
      return this.world.effect(() => super.addManifest(...args), false)
    }
    override addBatch(...args: Parameters<PublisherRecord['addBatch']>): Promise<void> {
      return this.world.effect(() => super.addBatch(...args), false)
    }
  })(this)
  /** rules that a run has broken, whatever it came to */
  readonly broken: string[] = []
  effects = 0
  /** before each request */
  pause = async () => {}
  disturbance: Disturbance | undefined
  /** a request that is still on its way */
  late: (() => Promise<unknown>) | undefined
  #isDead = false
  /** operations by the hash of their batch */
  readonly #operations = new Map<string, string>()

  private constructor(
    readonly keys: readonly (typeof PUBLISHER)[],
    readonly alone: boolean,
  ) {}

  static async begin(dataset: string, count: number, keys: readonly (typeof PUBLISHER)[]): Promise<World> {
    const world = new World(keys, count === 1) // a single server's publisher has a copy
    for (let i = 0; i < Math.max(2, count); i++) {
      const updatable = await UpdatableDatabase.open(await createIn(new MemoryStorage(), dataset))
      const app = await createServer({
        datasets: [{ updatable, publisherKeys: keys.map(({ publicKey }) => publicKey) }],
        instant: false,
      })
      const close = async () => {
        await app.close()
        await updatable.close()
      }
      const inject: Server['inject'] = async (method, url, headers, payload) => {
        const reply = await app.inject({ method, url, headers: { ...headers }, ...(payload && { payload }) })
        return new Response(new Uint8Array(reply.rawPayload), {
          status: reply.statusCode,
          headers: { date: String(reply.headers['date']) },
        })
      }
      world.servers.set(`http://${'abc'[i]}.example`, { inject, epoch: 1, signed: new Set(), close })
    }
    const bytes = await readFile(join(dataset, 'manifest.bin'))
    const { databaseId, epoch } = decodeManifest(bytes)
    await world.record.addManifest({ databaseId: toHex(databaseId), epoch, hash: toHex(blake3(bytes)) })
    await world.run('nothing')
    return world
  }

  async end(): Promise<void> {
    for (const { close } of this.servers.values()) await close()
  }

  /** Publishes from the first step, with what disturbs it. */
  async run(run: Run, disturbance?: Disturbance, record: PublisherRecord = this.record): Promise<PublishSummary> {
    Object.assign(this, { effects: 0, disturbance })
    this.#isDead = false
    const text = RUNS[run]
    return await publish({
      servers: [...this.servers.keys()],
      own: this.alone,
      key: this.keys,
      record,
      operations: text === undefined ? undefined : Buffer.from(text),
      ...(run === 'renew' && { expires: 4_000_000_000 }),
      fetch: (url, init) => this.#fetch(`${url}`, init),
    })
  }

  /** Something that lasts, and is disturbed if it is its turn. */
  async effect<T>(work: () => Promise<T>, isRequest: boolean): Promise<T> {
    if (this.#isDead) throw new Killed()
    const { effect, fate, arrives } = this.disturbance ?? { effect: 0, fate: undefined, arrives: 0 }
    const number = ++this.effects
    if (effect === 0 && number === arrives) await this.arrive()
    if (number !== effect) return await work()
    if (fate === 'killed before' || fate === 'killed after') {
      this.#isDead = true
      if (fate === 'killed after') await work()
      throw new Killed()
    }
    if (!isRequest) return await work()
    if (fate === 'late') this.late = work
    if (fate === 'reply lost') await work()
    throw new TypeError('the network is gone')
  }

  async arrive(): Promise<void> {
    const late = this.late
    this.late = undefined
    await late?.()
  }

  async #fetch(url: string, { method = 'GET', headers = {}, body }: RequestInit = {}): Promise<Response> {
    const origin = new URL(url).origin
    const server = this.servers.get(origin)!
    const path = url.slice(origin.length)
    await this.pause()
    if (method === 'GET') {
      if (this.#isDead) throw new Killed()
      return await server.inject('GET', path, {})
    }
    return await this.effect(async () => {
      const payload = Buffer.from(body as Uint8Array)
      const reply = await server.inject('POST', path, headers as object, payload)
      if (reply.status === 200) this.#took(server, path, (await reply.clone().json()) as Taken, payload)
      return reply
    }, true)
  }

  /** Holds what a server took to the rules. */
  #took(server: Server, path: string, { epoch, publicKey }: Taken, payload: Buffer): void {
    if (path === '/v1/signatures') {
      const lacking = [...this.servers.values()].filter(other => other.epoch < epoch)
      if (lacking.length > 0) this.broken.push(`a signature of epoch ${epoch} came before all servers had the epoch`)
      server.signed.add(`${epoch} ${publicKey}`)
      return
    }
    if (epoch <= server.epoch) return
    for (let earlier = 1; earlier < epoch; earlier++) {
      if (this.keys.some(key => !server.signed.has(`${earlier} ${toHex(key.publicKey)}`))) {
        this.broken.push(`epoch ${epoch} came while epoch ${earlier} was not signed`)
      }
    }
    server.epoch = epoch
    this.#operations.set(toHex(blake3(payload)), operationsOf(payload))
  }

  /** All servers are at one epoch, which all keys have signed, and no rule was broken on the way. */
  async expectWhole(seen = ''): Promise<void> {
    expect([seen, this.broken]).toEqual([seen, []])
    const shown = await Promise.all(
      [...this.servers.values()].map(async ({ inject }) => {
        const manifest = Buffer.from(await (await inject('GET', '/v1/manifest', {})).arrayBuffer())
        const { signatures } = (await (await inject('GET', '/v1/info', {})).json()) as { signatures: Taken[] }
        const { epoch } = decodeManifest(manifest)
        const signers = signatures.filter(entry => entry.epoch === epoch).map(({ publicKey }) => publicKey)
        return { epoch, manifest: toHex(blake3(manifest)).slice(0, 8), signers: signers.sort() }
      }),
    )
    const signers = this.keys.map(({ publicKey }) => toHex(publicKey)).sort()
    expect([seen, shown]).toEqual([seen, shown.map(() => ({ ...shown[0]!, signers }))])
  }

  /** How many epochs the servers made of these operations. */
  async made(run: Run): Promise<number> {
    const [{ inject, epoch }] = [...this.servers.values()] as [Server]
    let count = 0
    for (let e = 2; e <= epoch; e++) {
      const { batch } = (await (await inject('GET', `/v1/epochs/${e}`, {})).json()) as { batch: string }
      if (this.#operations.get(batch) === RUNS[run]) count++
    }
    return count
  }
}

interface Taken {
  readonly epoch: number
  readonly publicKey: string
}

const outcomeOf = (work: Promise<PublishSummary>) =>
  work.then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof Killed || error instanceof PublishError) return error
      throw error
    },
  )

/** A fixed sequence that looks random. */
function chance(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

describe.each([
  [1, 'one key', [PUBLISHER]],
  [2, 'one key', [PUBLISHER]],
  [2, 'two keys', [PUBLISHER, SECOND]],
  [3, 'one key', [PUBLISHER]],
] as const)('%i servers, %s', (count, _, keys) => {
  test.each(['edit', 'grow', 'generation', 'renew'] as const)(
    'a run that does "%s" is healed by any other, whatever disturbed it',
    async first => {
      const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
      const calm = await World.begin(dataset, count, keys)
      await calm.run(first)
      await calm.expectWhole()
      await calm.end()
      const nexts = [first, 'other', 'nothing'] as const
      const draw = chance(count * 100 + first.length)
      for (let effect = 1; effect <= calm.effects; effect++) {
        for (const fate of FATES) {
          if (draw(THOROUGH ? 3 : SAMPLE) !== 0) continue
          const next = nexts[draw(3)]!
          const world = await World.begin(dataset, count, keys)
          const disturbance = { effect, fate, arrives: 1 + draw(8) }
          const seen = `${fate} at effect ${effect}, then ${next}`
          await outcomeOf(world.run(first, disturbance))
          let left = await outcomeOf(world.run(next, { ...disturbance, effect: 0 }))
          if (fate === 'late') {
            // It may have stopped that run, or have come behind it.
            await world.arrive()
            left = await outcomeOf(world.run(next))
          }
          expect([seen, left]).toEqual([seen, undefined])
          await world.expectWhole(seen)
          for (const run of [first, next]) {
            const most = run === 'renew' ? 3 : 1
            expect([seen, run, run === 'nothing' || (await world.made(run)) <= most]).toEqual([seen, run, true])
          }
          if (next !== 'nothing') expect([seen, (await world.made(next)) > 0]).toEqual([seen, true])
          await world.end()
        }
      }
    },
  )
})

test('two publishers at once, with one record or two, part no servers, and a run of each heals what is left', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const draw = chance(5)
  for (let n = 0; n < (THOROUGH ? 60 : 12); n++) {
    const world = await World.begin(dataset, 3, [PUBLISHER])
    const other = n % 2 === 0 ? world.record : new PublisherRecord()
    world.pause = async () => {
      for (let turns = draw(6); turns > 0; turns--) await nextTask()
    }
    const outcomes = await Promise.all([outcomeOf(world.run('edit')), outcomeOf(world.run('other', undefined, other))])
    for (const outcome of outcomes)
      expect([n, outcome?.message ?? '']).toEqual([n, expect.not.stringContaining('DIVERGED')])
    // The first may find an epoch that only the other knows to be its own.
    await outcomeOf(world.run('edit'))
    for (const again of [await outcomeOf(world.run('other', undefined, other)), await outcomeOf(world.run('edit'))]) {
      if (again !== undefined) expect([n, again]).toEqual([n, expect.objectContaining({ exit: 5 })]) // published before
    }
    expect([n, await outcomeOf(world.run('nothing'))]).toEqual([n, undefined])
    await world.expectWhole(`${n}`)
    expect([n, await world.made('edit'), await world.made('other')]).toEqual([n, 1, 1])
    await world.end()
  }
})

test('a server that comes back from a backup gets nothing before its own newest epoch is signed, however often the run is killed', async () => {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  const restored = 'http://c.example'
  /** Two epochs on all servers, and two more where the third was away. */
  const begun = async () => {
    const world = await World.begin(dataset, 3, [PUBLISHER])
    await world.run('edit')
    const away = world.servers.get(restored)!
    world.servers.delete(restored)
    for (const run of ['other', 'renew'] as const) await world.run(run)
    world.servers.set(restored, away)
    return world
  }
  const calm = await begun()
  await calm.run('nothing')
  await calm.expectWhole()
  await calm.end()
  for (let effect = 1; effect <= calm.effects; effect++) {
    const world = await begun()
    const disturbance = { effect, fate: 'killed before', arrives: 0 } as const
    for (let times = 0; times < 2; times++) await outcomeOf(world.run('nothing', disturbance))
    await world.run('nothing')
    await world.expectWhole(`${effect}`)
    await world.end()
  }
})

test('a server that says to any batch that the generation is full makes no run begin another for a batch that adds nothing', async () => {
  const world = await World.begin(await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 }), 2, [PUBLISHER])
  const [[url, liar], [, other]] = [...world.servers] as [[string, Server], [string, Server]]
  const inject: Server['inject'] = async (method, path, headers, payload) => {
    const isRefused = path === '/v1/epochs' && !operationsOf(payload!).includes('"generation"')
    if (!isRefused) return await liar.inject(method, path, headers, payload)
    return Response.json({ code: 'batch_refused', message: 'full: begin a new generation', line: 1 }, { status: 422 })
  }
  world.servers.set(url, { ...liar, inject })
  for (let runs = 0; runs < 3; runs++) {
    expect(await outcomeOf(world.run('edit'))).toMatchObject({ code: 'batch_refused' })
    expect(other.epoch).toBe(1)
  }
  await world.end()
})

test('the steps are those of the page, in order', async () => {
  const page = await readFile(new URL('../../docs/operations/publish.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(/^\| (\d) \| (\w+) \|/gm)].map(([, number, step]) => [Number(number), step])
  expect(rows).toEqual(STEPS.map((step, i) => [i + 1, step]))
})
