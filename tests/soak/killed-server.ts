// One server without a download, behind one address; a publisher with a copy of its own; maps that look up all the time. Server and
// publisher are processes, and are killed at random moments. Each value is compared with a plain map of the epoch that was asked.
//
// Must never happen: another value than that of an epoch that the map was at while it asked; a lookup without an answer at its deadline; an epoch
// that the publisher cannot bring to its end by doing the same again.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type KeyhushMap, open } from '@keyhush/client'
import { toHex } from '@keyhush/protocol'
import { buildDataset, createKeyFile } from '@keyhush/server'
import { type Command, type ServerProcess, startCommand, startServerProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'
import { draws } from '../world/chance.js'
import { Balancer } from './balancer.js'

/** More columns than a hint has nodes, so that each column has a path. */
export const KEYS = 6000
const MAPS = 3
const VALUE_BYTES = 24
/** keys that have changed lately, of which every other lookup is: there a wrong epoch shows */
const LATELY = 30
const DAY_SECONDS = 24 * 60 * 60
/** A lookup is lost, and so is an epoch, if it takes so long. In tests it follows the machine. */
const PATIENCE_MS = Number(process.env['KEYHUSH_WAIT_MILLISECONDS'] ?? 90_000)
/** how long apps wait before they ask again */
const PAUSE_MS = 100

export interface Outcome {
  readonly epochs: number
  readonly generations: number
  /** lookups by what they were of */
  readonly lookups: Readonly<Record<Kind, number>>
  /** calls that failed, and were made again, by the code of the failure */
  readonly repeated: Readonly<Record<string, number>>
  /** maps that were opened */
  readonly opened: number
  readonly killed: { readonly server: number; readonly publisher: number }
  readonly longestSeconds: number
  readonly deadlineSeconds: number
}

const KINDS = ['present', 'absent', 'again', 'has', 'several'] as const
type Kind = (typeof KINDS)[number]
type Values = ReadonlyMap<string, string>

/**
 * So many epochs and lookups, or a few more. `seed` decides what is published, killed and asked; when, is up to the machine. Throws what
 * is wrong. `tell` is called after each epoch.
 */
export async function simulate(
  seed: number,
  epochs: number,
  lookups: number,
  tell: (outcome: Outcome) => void = () => {},
): Promise<Outcome> {
  const folder = await temporaryFolder()
  const cleanups: (() => Promise<unknown>)[] = [() => folder.remove()]
  try {
    return await (await World.begin(folder.path, draws(seed), cleanups)).run(epochs, lookups, tell)
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup().catch(() => {})
  }
}

export function lookupsIn(lookups: Outcome['lookups']): number {
  return Object.values(lookups).reduce((sum, count) => sum + count, 0)
}

class World {
  readonly #databases = new Map<number, Values>()
  readonly #lookups = Object.fromEntries(KINDS.map(kind => [kind, 0])) as Record<Kind, number>
  readonly #killed = { server: 0, publisher: 0 }
  #changed = ['key 0']
  #epoch = 1
  #generations = 1
  #added = KEYS
  readonly #repeated: Record<string, number> = {}
  #opened = 0
  #longestMs = 0
  /** how long a cycle takes that nobody disturbs */
  #turnMs = Number.POSITIVE_INFINITY
  /** lookups that were answered before the server was started again */
  #lookupsBefore = 0
  #over = false

  private constructor(
    private readonly chance: (count: number) => number,
    private readonly balancer: Balancer,
    private readonly publisherKey: string,
    private readonly serve: () => Promise<ServerProcess>,
    private readonly publish: (operations: readonly object[], epoch: number) => Promise<Command>,
    private server: ServerProcess,
  ) {
    const values = Array.from({ length: KEYS }, (_, key) => [`key ${key}`, `value ${key}`] as const)
    this.#databases.set(1, new Map(values))
  }

  static async begin(
    dir: string,
    chance: (count: number) => number,
    cleanups: (() => Promise<unknown>)[],
  ): Promise<World> {
    const [data, dataset, batch, record] = ['data.csv', 'dataset', 'batch.jsonl', 'record'].map(name => join(dir, name))
    const lines = Array.from({ length: KEYS }, (_, key) => `key ${key},value ${key}\n`)
    await writeFile(data!, `key,value\n${lines.join('')}`)
    const expires = Math.floor(Date.now() / 1000) + DAY_SECONDS
    const built = { data: data!, out: dataset!, maxValueBytes: VALUE_BYTES, oneServer: true, expires }
    const { manifestHash } = await buildDataset(built)
    const keyFile = join(dir, 'publisher.key')
    const publisherKey = toHex((await createKeyFile(keyFile)).publicKey)

    const serve = async () => {
      const of = ['--store', join(dir, 'store'), '--dataset', dataset!, '--publisher-key', publisherKey]
      const server = await startServerProcess(...of, '--rate-limit', '0', '--instant', '1')
      cleanups.push(() => server.kill())
      return server
    }
    const server = await serve()
    const balancer = await Balancer.start(chance)
    cleanups.push(() => balancer.close())
    const publish = async (operations: readonly object[], epoch: number) => {
      await writeFile(batch!, operations.map(operation => `${JSON.stringify(operation)}\n`).join(''))
      const trust = epoch === 1 ? ['--trust-base', manifestHash] : [batch!, '--valid-days', '1', '--no-generation']
      const own = ['--store', join(dir, 'own'), '--dataset', dataset!, '--record', record!]
      const command = startCommand('publish', '--servers', balancer.url, '--key', keyFile, ...own, ...trust)
      cleanups.push(() => command.kill())
      return command
    }
    return new World(chance, balancer, publisherKey, serve, publish, server)
  }

  async run(epochs: number, lookups: number, tell: (outcome: Outcome) => void): Promise<Outcome> {
    this.#sendTo(this.server)
    await this.#published([], 1)
    await this.#cycle()
    const restMs = (this.#turnMs * epochs * MAPS) / lookups
    // Lookups are spread over the epochs.
    const rest = () => (lookupsIn(this.#lookups) * epochs < this.#epoch * lookups ? 0 : this.chance(2 * restMs))
    const failed = Promise.all(Array.from({ length: MAPS }, () => this.#lookUpAllTheTime(rest)))
    failed.catch(() => {}) // should one of them fail, it ends at once
    try {
      while (this.#epoch < epochs || lookupsIn(this.#lookups) < lookups) {
        const cycle = this.#disturbedCycle()
        cycle.catch(() => {}) // of a cycle that is left because a lookup has failed
        await Promise.race([cycle, failed])
        tell(this.#outcome)
      }
    } finally {
      this.#over = true
    }
    await failed
    return this.#outcome
  }

  get #outcome(): Outcome {
    return {
      epochs: this.#epoch,
      generations: this.#generations,
      ...{ lookups: this.#lookups, repeated: this.#repeated, opened: this.#opened, killed: this.#killed },
      longestSeconds: this.#longestMs / 1000,
      deadlineSeconds: PATIENCE_MS / 1000,
    }
  }

  #sendTo(server: ServerProcess | undefined): void {
    this.balancer.targets.splice(0, 1, ...(server === undefined ? [] : [server]))
    this.balancer.writer = server?.url
  }

  // ---- what changes -------------------------------------------------------------------------------

  /** The next epoch. `publisherLivesMs`: how long its publisher lives, the first time. */
  async #cycle(publisherLivesMs?: number): Promise<void> {
    const next = new Map(this.#databases.get(this.#epoch))
    // Another each time: the same batch again makes no epoch.
    const operations = this.chance(25) === 0 ? [{ op: 'generation', headroom: 600 + this.#epoch }] : this.#changes(next)
    this.#databases.set(this.#epoch + 1, next)
    const begun = performance.now()
    await this.#published(operations, this.#epoch + 1, publisherLivesMs)
    if (this.#turnMs === Number.POSITIVE_INFINITY) this.#turnMs = performance.now() - begun
    this.#epoch += 1
    if ('headroom' in operations[0]!) this.#generations += 1
  }

  #changes(next: Map<string, string>): object[] {
    const known = [...next.keys()]
    const keys = [...new Set(Array.from({ length: 2 + this.chance(6) }, () => known[this.chance(known.length)]!))]
    const operations = keys.map((key, n) => {
      if (n === 0 && this.chance(2) === 0) {
        next.delete(key)
        return { op: 'delete', key }
      }
      next.set(key, `value ${this.#epoch} ${n}`)
      return { op: 'edit', key, value: next.get(key) }
    })
    for (let n = this.chance(3); n > 0; n--) {
      const key = `key ${this.#added++}`
      next.set(key, `new ${this.#epoch}`)
      keys.push(key)
      operations.push({ op: 'add', key, value: next.get(key) })
    }
    this.#changed = [...keys, ...this.#changed].slice(0, LATELY)
    return operations
  }

  /** As an operator would: does the same again until it is done. */
  async #published(operations: readonly object[], epoch: number, livesMs?: number): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS
    let mayDie = livesMs !== undefined
    while (!this.#over) {
      const command = await this.publish(operations, epoch)
      const killing = mayDie && this.#killAfter(livesMs!, command)
      mayDie = false
      const failure = await command.failure
      await killing
      if (failure === '') return
      if (failure.includes('DIVERGED') || performance.now() > deadline) {
        throw new Error(`epoch ${epoch} cannot be published: ${failure}`)
      }
      await sleep(PAUSE_MS)
    }
  }

  async #killAfter(ms: number, command: Command): Promise<void> {
    const killed = await Promise.race([sleep(ms, true), command.failure.then(() => false)])
    if (!killed) return
    this.#killed.publisher++
    await command.kill()
  }

  async #disturbedCycle(): Promise<void> {
    const moment = () => (this.chance(1000) / 1000) * this.#turnMs
    const answers = lookupsIn(this.#lookups) > this.#lookupsBefore // or a slow machine would only start servers
    const [server, publisher] = [this.#epoch % 2 === 0 && answers, this.#epoch % 3 === 0] // in one cycle of six both
    const cycle = this.#cycle(publisher ? moment() : undefined)
    await Promise.all([cycle, server && this.#killServerAfter(moment())])
  }

  async #killServerAfter(ms: number): Promise<void> {
    await sleep(ms)
    if (this.#over) return
    this.#killed.server++
    await this.server.kill()
    this.#sendTo(undefined)
    this.server = await this.serve()
    this.#lookupsBefore = lookupsIn(this.#lookups)
    this.#sendTo(this.server)
  }

  // ---- what is asked ------------------------------------------------------------------------------

  async #lookUpAllTheTime(rest: () => number): Promise<void> {
    let key = 'key 0'
    for (let one = await this.#open(); ; one = await this.#open()) {
      for (let left = 1 + this.chance(200); left > 0; left--) {
        const kind = KINDS[this.chance(KINDS.length)]!
        if (kind !== 'again') key = this.#drawn(kind)
        await this.#lookUp(one, kind, key)
        if (this.#over) return await one.close()
        await sleep(rest())
      }
      await one.close()
    }
  }

  #drawn(kind: Kind): string {
    if (kind === 'absent') return `nobody ${this.chance(KEYS)}`
    if (this.chance(2) === 0) return this.#changed[this.chance(this.#changed.length)]!
    const known = [...this.#databases.get(this.#epoch)!.keys()] // `has` is about either
    return kind === 'has' && this.chance(2) === 0 ? 'nobody' : known[this.chance(known.length)]!
  }

  #open(): Promise<KeyhushMap> {
    const { publisherKey, balancer } = this
    const options = { servers: [balancer.url], publisherKey, mode: 'instant', experimental: true } as const
    this.#opened++
    return this.#answered(() => open({ ...options, storage: 'memory' }))
  }

  async #lookUp(map: KeyhushMap, kind: Kind, key: string) {
    const keys = kind === 'several' ? [key, 'nobody', key] : [key]
    const begun = performance.now()
    let first = 0
    const found = await this.#answered(async () => {
      first = map.epoch
      if (kind === 'has') return [await map.has(key)]
      return kind === 'several' ? await map.getMany(keys, { padTo: 4 }) : [await map.get(key)]
    })
    this.#longestMs = Math.max(this.#longestMs, performance.now() - begun)
    // The map may have moved on while it asked.
    const epochs = Array.from({ length: map.epoch - first + 1 }, (_, i) => first + i)
    for (const [n, each] of keys.entries()) {
      const databases = epochs.map(epoch => this.#databases.get(epoch)!)
      const expected = databases.map(database => (kind === 'has' ? database.has(each) : database.get(each)))
      const value = found[n] instanceof Uint8Array ? new TextDecoder().decode(found[n]) : found[n]
      if (expected.includes(value as string)) continue
      throw new Error(`a wrong value: ${each} is ${value} at epochs ${epochs}, and should be ${expected.join(' or ')}`)
    }
    this.#lookups[kind]++
  }

  /** As an app would: asks again if that may help, until the deadline. */
  async #answered<T>(ask: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      try {
        return await ask()
      } catch (error) {
        const { code, retryable, message } = error as { code?: string; retryable?: boolean; message: string }
        // A publisher that died has yet to sign the newest epoch.
        if (!(retryable || code === 'signature' || code === 'version')) throw error
        if (performance.now() > deadline) throw new Error(`a lookup is lost: ${message}`)
        this.#repeated[code!] = (this.#repeated[code!] ?? 0) + 1
      }
      await sleep(PAUSE_MS)
    }
  }
}
