// Three replicas and the process that writes, on one PostgreSQL store behind one address; the other operator's server; maps that
// look up all the time; a publisher. Processes are killed at random. Processes, database and lookups are real.
//
// Must never happen: a value that the key did not have during its lookup; a lookup or an epoch that is lost although it is
// repeated; two requests granted for one step of a hint; a step that is taken back.

import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type KeyhushMap, open } from '@keyhush/client'
import { decodeFenceReply, decodeManifest, encodeFenceRequest, type FenceRequest } from '@keyhush/protocol'
import { buildDataset, createKeyFile, PublisherRecord, publish } from '@keyhush/server'
import { newStore } from '../support/postgres.js'
import { type ServerProcess, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'
import { draws } from '../world/chance.js'
import { Balancer } from './balancer.js'

const KEYS = 300
const MAPS = 4
const REPLICAS = 3
/** how often a lookup is repeated before it counts as lost */
const CALLS = 20

export interface Outcome {
  readonly lookups: number
  /** lookups that failed and were repeated */
  readonly repeated: number
  readonly epochs: number
  readonly kills: number
  /** steps of hints that several processes were asked for at once */
  readonly raced: number
}

/** `rounds`: epochs. `seed` decides what is published, killed and asked; when, is up to the machine. Throws what is wrong. */
export async function simulate(seed: number, rounds: number): Promise<Outcome> {
  const chance = draws(seed)
  const folder = await temporaryFolder()
  const cleanups: (() => Promise<unknown>)[] = [() => folder.remove()]
  try {
    const world = await World.begin(folder.path, chance, cleanups)
    return await world.run(rounds)
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup().catch(() => {})
  }
}

class World {
  readonly #replicas: ServerProcess[] = []
  /** a key's values, each from when its publishing began until its successor's had ended */
  readonly #values = new Map<string, { value: string; from: number; to: number }[]>()
  #over = false
  #lookups = 0
  #repeated = 0
  #kills = 0
  #raced = 0

  private constructor(
    private readonly chance: (count: number) => number,
    private readonly balancer: Balancer,
    private readonly other: string,
    private readonly serve: (replica: boolean) => Promise<ServerProcess>,
    private readonly publish: (operations: readonly object[]) => Promise<number>,
    private writer: ServerProcess,
  ) {
    for (let key = 0; key < KEYS; key++) {
      this.#values.set(`key ${key}`, [{ value: `value ${key}`, from: 0, to: Number.POSITIVE_INFINITY }])
    }
  }

  static async begin(
    dir: string,
    chance: (count: number) => number,
    cleanups: (() => Promise<unknown>)[],
  ): Promise<World> {
    const { store, remove } = await newStore()
    cleanups.push(remove)
    const data = join(dir, 'data.csv')
    const dataset = join(dir, 'dataset')
    const lines = Array.from({ length: KEYS }, (_, key) => `key ${key},value ${key}\n`)
    await writeFile(data, `key,value\n${lines.join('')}`)
    const { databaseId, manifest, manifestHash } = await buildDataset({ data, out: dataset, maxValueBytes: 24 })
    const key = await createKeyFile(join(dir, 'publisher.key'))
    const record = await PublisherRecord.open(join(dir, 'record'))
    await record.addManifest({ databaseId, epoch: manifest.epoch, hash: manifestHash })

    const common = ['--rate-limit', '0', '--instant', 'off']
    const writes = ['--publisher-key', Buffer.from(key.publicKey).toString('hex'), '--dataset', dataset]
    const serve = async (replica: boolean) => {
      const server = await startServerProcess(...common, ...(replica ? ['--replica'] : writes), '--store', store)
      cleanups.push(() => server.kill())
      return server
    }
    const writer = await serve(false)
    const other = await startServerProcess(...common, ...writes, '--store', join(dir, 'other'))
    cleanups.push(() => other.kill())
    const balancer = await Balancer.start(chance)
    cleanups.push(() => balancer.close())
    balancer.writer = writer.url
    const publishing = async (operations: readonly object[]) => {
      const lines = operations.map(operation => `${JSON.stringify(operation)}\n`).join('')
      const servers = [balancer.url, other.url] as const
      // As an operator would: repeats it.
      for (let attempt = 1; ; attempt++) {
        try {
          const summary = await publish({ servers, key, record, operations: Buffer.from(lines), generation: false })
          return summary.epoch
        } catch (error) {
          if (attempt === CALLS) throw error
          await sleep(250)
        }
      }
    }
    return new World(chance, balancer, other.url, serve, publishing, writer)
  }

  async run(rounds: number): Promise<Outcome> {
    for (let n = 0; n < REPLICAS; n++) await this.#join()
    const maps = await Promise.all(Array.from({ length: MAPS }, () => this.#openMap()))
    const busy = [...maps.map(map => this.#lookUp(map)), this.#race(), this.#kill()]
    const failed = Promise.all(busy) // should one of them fail, it ends at once
    failed.catch(() => {})
    let epoch = 0
    try {
      for (let round = 1; round <= rounds; round++)
        epoch = await Promise.race([this.#cycle(round), failed.then(() => 0)])
    } finally {
      this.#over = true
    }
    await failed
    for (const map of maps) await map.close()
    await this.#expectTogether(epoch)
    const [lookups, repeated, kills, raced] = [this.#lookups, this.#repeated, this.#kills, this.#raced]
    return { lookups, repeated, epochs: epoch - 1, kills, raced }
  }

  async #join(): Promise<void> {
    const replica = await this.serve(true)
    this.#replicas.push(replica)
    this.balancer.targets.push(replica)
  }

  async #openMap(): Promise<KeyhushMap> {
    const servers = [this.balancer.url, this.other] as const
    return await this.#repeat(() => open({ servers, mode: 'full', storage: 'memory', rollback: 'strict' }))
  }

  /** Repeats a call that failed on the network, or because a replica was behind, and no other. */
  async #repeat<T>(work: () => Promise<T>): Promise<T> {
    for (let call = 1; ; call++) {
      try {
        return await work()
      } catch (error) {
        const { code, retryable } = error as { readonly code?: string; readonly retryable?: boolean }
        const isPassing = code === 'network' || (code === 'version' && retryable === true)
        if (!isPassing || call === CALLS) throw error
        this.#repeated++
      }
    }
  }

  async #lookUp(map: KeyhushMap): Promise<void> {
    while (!this.#over) {
      const key = `key ${this.chance(KEYS + 20)}`
      const from = performance.now()
      const found = await this.#repeat(() => map.get(key))
      const to = performance.now()
      const value = found === undefined ? undefined : new TextDecoder().decode(found)
      const known = this.#values.get(key) ?? []
      const fits = known.filter(each => each.from <= to && each.to >= from).map(each => each.value)
      if (value === undefined ? known.some(each => each.from === 0) : !fits.includes(value)) {
        throw new Error(`a wrong record: ${key} is ${value}, and was one of ${JSON.stringify(fits)}`)
      }
      this.#lookups++
    }
  }

  /** The next epoch: some of the first keys change, none is deleted. */
  async #cycle(round: number): Promise<number> {
    const keys = [...new Set(Array.from({ length: 1 + this.chance(8) }, () => `key ${this.chance(KEYS)}`))]
    const from = performance.now()
    for (const key of keys) {
      this.#values.get(key)!.push({ value: `value ${key} ${round}`, from, to: Number.POSITIVE_INFINITY })
    }
    const edits = keys.map(key => ({ op: 'edit', key, value: `value ${key} ${round}` }))
    const generation = round % 8 === 0
    const epoch = await this.publish(edits)
    if (generation) await this.publish([{ op: 'generation', headroom: 50 + round }])
    const to = performance.now()
    // Maps may be asked at the epoch before for some time yet.
    for (const key of keys) this.#values.get(key)!.at(-2)!.to = to + 20_000
    return generation ? epoch + 1 : epoch
  }

  async #kill(): Promise<void> {
    while (!this.#over) {
      await sleep(200 + this.chance(1500))
      this.#kills++
      if (this.chance(4) === 0) {
        this.balancer.writer = undefined
        await this.writer.kill()
        this.writer = await this.serve(false)
        this.balancer.writer = this.writer.url
        continue
      }
      const [victim] = this.#replicas.splice(this.chance(this.#replicas.length), 1)
      const dying = victim!.kill()
      await sleep(this.chance(100)) // before the balancer notices
      this.balancer.targets.splice(this.balancer.targets.indexOf(victim!), 1)
      await dying
      await this.#join()
    }
  }

  /** Copies of one client, each at another process: one copy is granted each step of its hint, and no step is taken back. */
  async #race(): Promise<void> {
    const manifest = decodeManifest(new Uint8Array(await (await fetch(`${this.other}/v1/manifest`)).arrayBuffer()))
    const hintId = randomBytes(16)
    const ask = async (url: string, kind: FenceRequest['kind'], version: number, requestHash: Uint8Array) => {
      const body = Buffer.from(
        encodeFenceRequest({ kind, databaseId: manifest.databaseId, hintId, version, requestHash }),
      )
      const reply = await fetch(`${url}/v1/fence`, { method: 'POST', body }).catch(() => undefined)
      if (reply?.status !== 200) return 'unknown'
      return decodeFenceReply(new Uint8Array(await reply.arrayBuffer()))
    }
    const nothing = new Uint8Array(32)
    const surely = async (...request: [FenceRequest['kind'], number, Uint8Array]) => {
      for (let call = 1; call <= 100; call++) {
        const verdict = await ask(this.balancer.url, ...request)
        if (verdict !== 'unknown') return verdict
        await sleep(50)
      }
      throw new Error('the fence says nothing any more')
    }
    if ((await surely('register', 0, nothing)) !== 'granted') throw new Error('a new hint is refused')
    if ((await surely('confirm', 0, nothing)) !== 'granted') throw new Error('a new hint is refused')
    for (let version = 1; !this.#over; version++) {
      const requests = Array.from({ length: 2 * REPLICAS }, () => new Uint8Array(randomBytes(32)))
      const urls = [...this.balancer.targets.map(({ url }) => url), this.writer.url]
      const verdicts = await Promise.all(
        requests.map((hash, n) => ask(urls[n % urls.length]!, 'confirm', version, hash)),
      )
      const granted = requests.filter((_, n) => verdicts[n] === 'granted')
      if (granted.length > 1) throw new Error(`the fence was passed: ${granted.length} requests for version ${version}`)
      // A grant, even one whose reply was lost, is final; the other copies stay refused.
      const again = await Promise.all(requests.map(hash => surely('confirm', version, hash)))
      const winners = requests.filter((_, n) => again[n] === 'granted')
      if (winners.length !== 1 || (granted.length === 1 && winners[0] !== granted[0])) {
        throw new Error(`the fence was passed: ${winners.length} requests for version ${version}, asked again`)
      }
      if (version > 1 && (await surely('confirm', version - 1, requests[0]!)) !== 'refused') {
        throw new Error(`the fence was passed: version ${version - 1} after ${version}`)
      }
      this.#raced++
    }
  }

  /** In the end all have the newest epoch, in the same bytes. */
  async #expectTogether(epoch: number): Promise<void> {
    const urls = [this.other, this.writer.url, ...this.#replicas.map(({ url }) => url)]
    const shown: string[] = []
    for (const url of urls) {
      for (let call = 1; ; call++) {
        const manifest = Buffer.from(await (await fetch(`${url}/v1/manifest`)).arrayBuffer())
        if (decodeManifest(manifest).epoch >= epoch || call === 100) {
          shown.push(manifest.toString('hex'))
          break
        }
        await sleep(100)
      }
    }
    if (new Set(shown).size !== 1) throw new Error('processes show different epochs')
  }
}
