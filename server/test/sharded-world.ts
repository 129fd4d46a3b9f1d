// Two operators, each with shards and a coordinator, and one publisher. Coordinators are the real ones; shards, the network and the
// publisher are models. Each message and each write is an event, and a seed says which comes next, and what is lost, repeated or killed.

import { setImmediate as nextTask } from 'node:timers/promises'
import {
  decodeBatch,
  decodeManifest,
  type EpochStatus,
  encodeBatch,
  encodeManifest,
  fromHex,
  type Manifest,
  parseBatchSignature,
  signedBatchBytes,
  toHex,
} from '@keyhush/protocol'
import { type Core, loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import { type SigningKey, signed } from '../../tests/support/publishing.js'
import { verifies } from '../dist/base/ed25519.js'
import { Refusal } from '../dist/base/refusal.js'
import { EpochStore } from '../dist/database/epoch-store.js'
import { ANOTHER_PROCESS, putDated, putHead, putJson, putSealed } from '../dist/database/stored-values.js'
import { MemoryStorage } from '../dist/index.js'
import {
  type EpochOfShards,
  type PublishedShards,
  ShardedPublishing,
  type Successor,
} from '../dist/sharded/publishing.js'
import { chance } from './publish-world.js'

/** What a wrong coordinator does. Wrong publishers are found in publish-steps.all.test.ts. */
export const FAULTS = [
  'no check',
  'no intent',
  'the hash alone as intent',
  'shows early',
  'a check that is signed as a batch',
] as const
export type Fault = (typeof FAULTS)[number] | 'overwrites the intent of another process' | undefined

/** Something that is wrong, whatever a run came to. */
export class Violation extends Error {}

class Away extends Error {}

type Ask = EpochOfShards['fabric']['ask']
type Call = Parameters<Ask>[1]

const hash = (bytes: Uint8Array) => toHex(blake3(bytes))
const json = (value: object) => Buffer.from(JSON.stringify(value))

/** A shard with a durable store. It answers its newest epoch and the one before. */
export class Shard {
  readonly past = new Map<number, { readonly bytes: Uint8Array; readonly batch: string }>()
  newest: number
  isUp = true

  /** `template`: its first manifest */
  constructor(
    readonly template: Manifest,
    readonly key: SigningKey,
  ) {
    this.newest = template.epoch
    this.past.set(template.epoch, { bytes: encodeManifest(template), batch: '' })
  }

  get answers(): readonly number[] {
    return [this.newest, this.newest - 1].filter(epoch => this.past.has(epoch))
  }

  handle({ path, body, headers }: Call): Uint8Array {
    const [route, query = ''] = path.split('?')
    if (route === '/v1/manifest') {
      const asked = new URLSearchParams(query)
      const { generation } = this.template
      const known = this.past.get(Number(asked.get('epoch') ?? this.newest))
      if (known === undefined || Number(asked.get('generation') ?? generation) !== generation)
        throw new Refusal('epoch_unknown', 'no such epoch', undefined, { generation, epoch: this.newest })
      return known.bytes
    }
    const use = route === '/v1/checks' ? 'check' : 'batch'
    const { signature, ...claimed } = parseBatchSignature(Object.values(headers!)[0]!)
    const { databaseId } = this.template
    if (!verifies(signature, signedBatchBytes({ ...claimed, databaseId }, use), this.key.publicKey))
      throw new Refusal('unauthorized', `no signature of a ${use}`)
    if (hash(body!) !== toHex(claimed.batchHash)) throw new Refusal('unauthorized', 'another batch')
    const batch = decodeBatch(body!)
    const { epoch, expires, previousManifest } = batch
    const made = this.past.get(epoch)
    if (made !== undefined) {
      if (made.batch !== hash(body!)) throw new Refusal('batch_conflict', 'another batch made it')
    } else {
      if (epoch !== this.newest + 1) throw new Refusal('epoch_gap', 'too far')
      const before = this.past.get(this.newest)!
      if (hash(before.bytes) !== toHex(previousManifest)) throw new Refusal('batch_conflict', 'on another manifest')
    }
    const lines = Buffer.from(batch.operations).toString().trimEnd().split('\n')
    const bad = lines.findIndex(line => line.includes('bad'))
    if (bad >= 0) throw new Refusal('batch_refused', `line ${bad + 1}: bad`, undefined, { line: bad + 1 })
    const isFull = lines.some(line => line.includes('full'))
    const { generation, partitions } = this.template
    if (use === 'check') return json({ generation, epoch, partitions: partitions + Number(isFull) })
    if (isFull) throw new Violation('a shard opened a partition')
    if (made === undefined) {
      const own = { epoch, expires, previousManifest, updateListBytes: 40, updateListHash: fromHex(hash(body!)) }
      this.past.set(epoch, { bytes: encodeManifest({ ...this.template, ...own }), batch: hash(body!) })
      this.newest = epoch
    }
    const status = { generation, epoch, manifest: hash(this.past.get(epoch)!.bytes), batch: hash(body!) }
    return json({ ...status, changes: lines.length })
  }

  /** What it would reply, without a change. */
  foretell(call: Call): Uint8Array {
    const { newest } = this
    const before = new Map(this.past)
    try {
      return this.handle(call)
    } finally {
      this.newest = newest
      this.past.clear()
      for (const [epoch, known] of before) this.past.set(epoch, known)
    }
  }
}

/** A coordinator's process. */
interface Process {
  isAlive: boolean
  newest: EpochOfShards
  readonly statuses: Map<number, EpochStatus>
  readonly publishing: ShardedPublishing<EpochOfShards>
  /** those that it was started with, by generation */
  readonly sets: readonly (readonly Shard[])[]
  /** rejects when it is killed */
  readonly end: Promise<never>
  readonly kill: (error: Error) => void
  hasFailed: boolean
}

export class Operator {
  readonly storage = new MemoryStorage()
  /** of each generation that was built */
  readonly sets: (readonly Shard[])[] = []
  process!: Process
  /** the one before, which may live on */
  before: Process | undefined

  constructor(
    readonly world: World,
    count: number,
    template: Manifest,
    readonly key: SigningKey,
  ) {
    this.template = template
    this.sets.push(this.#setOf(count, template))
  }

  readonly template: Manifest

  get shards(): readonly Shard[] {
    return this.sets.flat()
  }

  #setOf(count: number, first: Manifest): Shard[] {
    return Array.from({ length: count }, (_, shard) => {
      const directoryHash = first.directoryHash.map(byte => byte ^ shard)
      return new Shard({ ...first, directoryHash, databaseId: first.databaseId.map(byte => byte ^ shard) }, this.key)
    })
  }

  /** Whether shards were built on the head for the next generation; undefined: of another list. */
  async isBuilt(): Promise<boolean | undefined> {
    const { epoch, generation, manifests } = await this.stored()
    const first = this.sets[generation]?.[0]?.template
    if (first === undefined || toHex(first.previousManifest) !== manifests.get(epoch)) return false
    return first.expires === 0 || undefined
  }

  /** Builds the shards of the next generation on the head, and starts the coordinator with them. `list`: 0 is the right one. */
  async build(list: number): Promise<void> {
    const { epoch, generation, manifests } = await this.stored()
    const previousManifest = fromHex(manifests.get(epoch)!)
    const numbers = { generation: generation + 1, epoch: epoch + 1, expires: list }
    const first = { ...this.template, ...numbers, previousManifest, updateListBytes: 0 }
    this.sets[generation] = this.#setOf(generation % 2 === 0 ? 2 : 4, first)
  }

  /** The hash of the list of the next generation's shards. */
  nextOf({ manifest: { generation } }: EpochOfShards): string | undefined {
    const set = this.sets[generation]
    return set && hash(Buffer.concat(set.map(({ past, template }) => blake3(past.get(template.epoch)!.bytes))))
  }

  epochOf(generation: number, epoch: number, previousManifest: string, owner: Partial<Process>): EpochOfShards {
    const set = this.sets[generation - 1]!
    const shards = set.map(({ past }) => {
      const { bytes } = past.get(epoch)!
      return { bytes, manifest: decodeManifest(bytes) }
    })
    return this.#of({ shards, fabric: this.#fabric(set, owner), expires: 0 }, previousManifest)
  }

  #fabric(set: readonly Shard[], owner: Partial<Process>): EpochOfShards['fabric'] {
    return {
      shards: set.length,
      ask: (shard, call) => this.world.ask(set[shard]!, this.key, call, owner as Process),
    }
  }

  #of({ shards, fabric }: Successor<EpochOfShards>, previousManifest: string): EpochOfShards {
    const { manifest: first } = shards[0]!
    if (shards.some(({ manifest }) => manifest.epoch !== first.epoch)) throw new Violation('shards of several epochs')
    const list = Buffer.concat(shards.map(({ bytes }) => blake3(bytes)))
    const manifest = {
      ...first,
      databaseId: this.world.databaseId,
      partitions: shards.length * first.partitions,
      shards: shards.length,
      previousManifest: fromHex(previousManifest),
    }
    const { generation, epoch } = first
    const manifestBytes = json({ generation, epoch, list: toHex(list), previousManifest })
    return { manifest, manifestBytes, manifestHash: hash(manifestBytes), shards, fabric, close: () => {} }
  }

  async begin(): Promise<void> {
    const { manifest, manifestBytes } = this.epochOf(1, 1, '00'.repeat(32), {})
    await this.storage.transact([], transaction => {
      putSealed(transaction, 'manifest/00000001', manifestBytes)
      putJson(transaction, 'batch/00000001', { batch: '', changes: 0 })
      putHead(transaction, { epoch: 1, generation: manifest.generation, base: 1 })
    })
    await this.start()
  }

  /** The durable head, and what its manifests say. */
  async stored() {
    const store = new EpochStore(this.storage)
    const { epoch, generation } = (await store.head())!
    const manifests = new Map<number, string>()
    const generations = new Map<number, number>()
    for await (const each of store.epochs()) {
      const bytes = (await store.manifest(each))!
      manifests.set(each, hash(bytes))
      generations.set(each, JSON.parse(Buffer.from(bytes).toString()).generation)
    }
    return { epoch, generation, manifests, generations, intent: await store.intent() }
  }

  /** Of what the store has. */
  async start(): Promise<void> {
    const { world } = this
    const store = new EpochStore(this.storage)
    const head = (await store.head())!
    const statuses = new Map<number, EpochStatus>()
    for await (const epoch of store.epochs()) {
      const [batch, bytes] = [(await store.batch(epoch))!, (await store.manifest(epoch))!]
      const { generation } = JSON.parse(Buffer.from(bytes).toString())
      statuses.set(epoch, { generation, epoch, manifest: hash(bytes), ...batch })
    }
    const { previousManifest } = JSON.parse(Buffer.from((await store.manifest(head.epoch))!).toString())
    let kill: Process['kill'] = () => {}
    const end = new Promise<never>((_, reject) => {
      kill = reject
    })
    end.catch(() => {})
    const life: Partial<Process> = { isAlive: true, hasFailed: false, sets: [...this.sets] }
    life.newest = this.epochOf(head.generation, head.epoch, previousManifest, life)
    const fabrics = this.sets.map(set => this.#fabric(set, life))
    const event = <T>(work: () => Promise<T> | T) => world.event(work, life as Process)
    const { fault } = world
    let hashAlone: string | undefined
    const database: PublishedShards<EpochOfShards> = {
      core: world.core,
      store: {
        intent: () => event(() => (fault === 'the hash alone as intent' ? undefined : store.intent())),
        intend: (epoch, body) =>
          event(async () => {
            if (fault === 'no intent') return body
            if (fault === 'overwrites the intent of another process') {
              await this.storage.transact([], transaction => putDated(transaction, 'intent', epoch, body))
              return body
            }
            const intent = await store.intend(epoch, body)
            hashAlone = hash(intent)
            if (fault === 'the hash alone as intent' && hashAlone !== hash(body))
              throw new Refusal('batch_conflict', 'expected the batch with the hash that is kept, got another')
            return intent
          }),
      },
      status: epoch => statuses.get(epoch),
      get newest() {
        return life.newest!
      },
      get next() {
        return fabrics[life.newest!.manifest.generation]
      },
      successor: of => this.#of(of, life.newest!.manifestHash),
      // As ShardedDatabase does.
      advance: async (next, batch, onStored) => {
        const { manifestBytes: bytes, manifestHash, shards } = next
        const { epoch, generation } = next.manifest
        const list = Buffer.concat(shards.map(each => blake3(each.bytes)))
        await event(async () => {
          const changes = { manifest: next.manifest, bytes, list, batch, base: epoch, oldest: epoch - 64 }
          if (!(await store.append(changes)) && !(await store.isNewest(epoch, bytes))) throw new Error(ANOTHER_PROCESS)
        })
        const status = { generation, epoch, manifest: manifestHash, ...batch }
        statuses.set(epoch, status)
        onStored(status)
        life.newest = next
      },
      onFailure: error => {
        life.hasFailed = true
        if (error instanceof Violation) world.violations.push(error.message)
      },
    }
    const publishing = new ShardedPublishing(
      database,
      this.key,
      () => 0,
      () => event(() => {}),
    )
    this.process = Object.assign(life, { publishing, statuses, end, kill }) as Process
    // What it awaits are events.
    void publishing.resume().catch(() => {})
  }

  /** Asks the coordinator's process; it may be killed meanwhile. */
  async request<T>(work: (process: Process) => Promise<T>): Promise<T> {
    await this.world.event(() => {}, undefined)
    // A balancer may still know the one that was cut off.
    const process = this.before?.isAlive && this.world.draw(8) === 0 ? this.before : this.process
    if (!process.isAlive || process.hasFailed) throw new Away('away')
    return await Promise.race([work(process), process.end])
  }
}

export class World {
  readonly violations: string[] = []
  readonly draw: (below: number) => number
  readonly databaseId: Uint8Array
  operators: readonly Operator[] = []
  core!: Core
  /** nothing is lost, killed or away any more */
  isCalm = false
  #events: { readonly work: () => Promise<void>; readonly owner: Process | undefined; readonly isMessage: boolean }[] =
    []
  #sent: { readonly shard: Shard; readonly call: Call }[] = []
  /** the publisher's record: batches by the epoch that they make, in order */
  #record: { readonly epoch: number; readonly body: Uint8Array<ArrayBuffer> }[] = []
  #signed = 1
  #made = 0
  #batches = 0
  #publisher = 0
  /** the generation that is to begin, or has */
  #wanted = 1

  private constructor(
    seed: number,
    readonly fault: Fault,
    template: Manifest,
  ) {
    this.draw = chance(seed)
    for (let i = 0; i < 5; i++) this.draw(2)
    this.databaseId = template.databaseId.map(byte => byte ^ 0xff)
  }

  static async begin(seed: number, fault: Fault, template: Manifest, key: SigningKey): Promise<World> {
    const world = new World(seed, fault, template)
    world.core = await loadCore()
    const count = [2, 2, 4][world.draw(3)]!
    world.operators = [0, 1].map(() => new Operator(world, count, template, key))
    for (const operator of world.operators) await operator.begin()
    return world
  }

  /** Resolves once its turn has come, unless its owner was killed before. A message that was sent may arrive all the same. */
  event<T>(work: () => Promise<T> | T, owner: Process | undefined, isMessage = false): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = async () => {
        try {
          const result = await work()
          if (owner?.isAlive !== false) resolve(result)
        } catch (error) {
          if (error instanceof Violation) this.violations.push(error.message)
          if (owner?.isAlive !== false) reject(error)
        }
      }
      this.#events.push({ work: run, owner, isMessage })
    })
  }

  async ask(to: Shard, key: SigningKey, call: Call, owner: Process): Promise<Uint8Array> {
    const isCheck = call.path.startsWith('/v1/checks')
    if (isCheck && this.fault === 'no check') return json({ partitions: to.template.partitions })
    if (isCheck && this.fault === 'a check that is signed as a batch')
      this.#sent.push({ shard: to, call: { ...call, headers: signed(call.body!, key) } })
    if (call.method === 'POST') this.#sent.push({ shard: to, call })
    if (this.fault === 'shows early' && !isCheck) {
      if (call.method === 'POST') {
        const reply = to.foretell(call)
        void this.event(() => to.handle(call), undefined, true).catch(() => {})
        return reply
      }
      const post = this.#sent.findLast(each => each.shard === to && each.call.path.startsWith('/v1/epochs'))
      if (post !== undefined && to.newest < decodeBatch(post.call.body!).epoch) {
        const { newest } = to
        to.handle(post.call)
        const reply = to.handle(call)
        to.past.delete(newest + 1)
        to.newest = newest
        return reply
      }
    }
    const fate = this.isCalm ? 9 : this.draw(20)
    const reply = await this.event(
      () => {
        if (!to.isUp || fate === 0) throw new Refusal('not_ready', 'no reply')
        const made = to.handle(call)
        if (fate === 1) throw new Refusal('not_ready', 'the reply is lost')
        return made
      },
      owner,
      true,
    )
    return reply
  }

  async step(): Promise<void> {
    const { draw, operators } = this
    const operator = operators[draw(2)]!
    if (draw(25) === 0) await this.#build(operator)
    const x = this.isCalm ? 999 : draw(1000)
    if (x < 40) operator.shards[draw(operator.shards.length)]!.isUp = x >= 6
    else if (x < 46) await this.#restart(operator)
    else if (x < 49) this.#publisher += 1
    else if (x < 52) {
      // Another machine, or files that are lost.
      this.#publisher += 1
      this.#record = []
    } else if (x < 70 && this.#sent.length > 0) {
      // Somebody who reads along sends it again, to publish it.
      const { shard, call } = this.#sent[draw(this.#sent.length)]!
      try {
        shard.handle({ ...call, path: '/v1/epochs?late=1' })
      } catch (error) {
        if (error instanceof Violation) throw error
      }
    } else if (x < 73) this.#wanted = 1 + (await operator.stored()).generation
    else await this.#next()
    await this.#settle()
    await this.#check()
  }

  /** If a generation is wanted, has an operator build it on the head, once of another list, and start with it. */
  async #build(operator: Operator): Promise<void> {
    const { generation } = await operator.stored()
    const isBuilt = generation >= this.#wanted || (await operator.isBuilt())
    if (isBuilt === true) return
    await operator.build(Number(isBuilt === false && !this.isCalm && this.draw(4) === 0))
    await this.#restart(operator)
  }

  /** Lets a publisher work, if none does, and runs an event. */
  async #next(): Promise<void> {
    if (this.#publishing !== this.#publisher) void this.#publish()
    await this.#run()
  }

  async #run(): Promise<void> {
    const events = this.#events
    if (events.length === 0) return
    const [{ work, owner, isMessage }] = events.splice(this.draw(events.length), 1) as [(typeof events)[number]]
    if (owner?.isAlive === false && !(isMessage && this.draw(2) === 0)) return
    await work()
  }

  async #restart(operator: Operator): Promise<void> {
    const { process } = operator
    // One that was cut off may go on beside its successor, and know nothing of it.
    if (this.draw(4) > 0 || this.isCalm) {
      process.isAlive = false
      process.publishing.stop()
      process.kill(new Away('killed'))
    }
    operator.before = process
    await operator.start()
  }

  /** What does not wait for an event has been done. */
  async #settle(): Promise<void> {
    for (let turns = 0; turns < 3; turns++) await nextTask()
  }

  /** the publisher that has a run under way */
  #publishing = -1

  /** One run of the publisher, until it is killed or has nothing to do. */
  async #publish(): Promise<void> {
    const life = this.#publisher
    this.#publishing = life
    try {
      await this.#publishOnce(() => {
        if (this.#publisher !== life) throw new Away('killed')
      })
    } catch (error) {
      const isExpected =
        error instanceof Refusal || error instanceof Away || (error as Error).message === ANOTHER_PROCESS
      if (!isExpected) this.violations.push(String((error as Error).stack))
      await this.event(() => {}, undefined)
    } finally {
      if (this.#publishing === life) this.#publishing = -1
    }
  }

  async #publishOnce(checkAlive: () => void): Promise<void> {
    const { operators } = this
    const ask = async <T>(operator: Operator, work: (process: Process) => Promise<T>) => {
      checkAlive()
      const result = await operator.request(work)
      checkAlive()
      return result
    }
    const send = (operator: Operator, body: Uint8Array<ArrayBuffer>, isLate = true) =>
      ask(operator, ({ publishing }) => publishing.publish(body, undefined, isLate))
    const heads: EpochOfShards[] = []
    for (const operator of operators) heads.push(await ask(operator, async ({ newest }) => newest))
    const tip = heads.reduce((a, b) => (a.manifest.epoch >= b.manifest.epoch ? a : b))
    const { epoch, generation } = tip.manifest
    for (const [i, operator] of operators.entries()) {
      if (heads[i]!.manifest.epoch === epoch) continue
      if (heads[i]!.manifest.epoch < epoch - 1) throw new Away('a process that was cut off')
      // Who has lost the record is given the batch by the operator who has the epoch.
      const ahead = operators[heads.indexOf(tip)]!
      const batch = ahead.process.statuses.get(epoch)?.batch
      const { intent } = await ahead.stored()
      const known = [...this.#record.map(({ body }) => body), ...(intent === undefined ? [] : [intent.bytes])]
      const body = known.find(each => hash(each) === batch)
      if (body === undefined) throw new Away('nobody has the batch')
      await send(operator, new Uint8Array(body))
    }
    this.#signed = Math.max(this.#signed, epoch)
    const begun = this.#record.find(each => each.epoch === epoch + 1)
    let body = begun?.body
    if (body === undefined) {
      const shards = operators[0]!.nextOf(tip)
      const isWanted = generation < this.#wanted
      const built = await Promise.all(operators.map(operator => operator.isBuilt()))
      if (isWanted && built.includes(false)) throw new Away('shards are being built')
      body = this.#batchOn(tip, generation, isWanted ? [JSON.stringify({ op: 'generation', shards })] : undefined)
      for (const operator of operators)
        await ask(operator, ({ publishing }) => publishing.check(body!, undefined, false))
      checkAlive()
      this.#record.push({ epoch: epoch + 1, body })
    }
    const made = body
    for (const operator of operators) await send(operator, made)
    this.#made += 1
  }

  #edits(always?: string): string[] {
    const { draw } = this
    const word = () => always ?? ['x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'bad', 'full'][draw(13)]!
    return Array.from({ length: 1 + draw(4) }, (_, i) =>
      JSON.stringify({ op: 'edit', key: `key ${draw(100)} ${i}`, value: `${word()}${this.#batches}` }),
    )
  }

  #batchOn(
    { manifest, manifestHash }: EpochOfShards,
    generation: number,
    lines: readonly string[] = this.#edits(),
  ): Uint8Array<ArrayBuffer> {
    this.#batches += 1
    return encodeBatch({
      ...{ databaseId: this.databaseId, generation, epoch: manifest.epoch + 1, expires: 0, encoding: 'utf8' },
      ...{ previousManifest: fromHex(manifestHash), operations: Buffer.from(`${lines.join('\n')}\n`) },
    })
  }

  /** What holds at any moment. */
  async #check(): Promise<void> {
    const stored = await Promise.all(this.operators.map(operator => operator.stored()))
    const answered = stored.map(({ epoch, generations }, i) =>
      [epoch, epoch - 1].filter(each =>
        this.operators[i]!.sets[generations.get(each)! - 1]?.every(({ answers }) => answers.includes(each)),
      ),
    )
    for (const [i, { epoch }] of stored.entries())
      if (!answered[i]!.includes(epoch))
        throw new Violation(`operator ${i} shows epoch ${epoch}, and not every shard answers it`)
    const [a, b] = answered as [number[], number[]]
    if (!a.some(epoch => b.includes(epoch))) throw new Violation('the operators answer no epoch together')
    const both = Math.min(...stored.map(({ epoch }) => epoch))
    if (stored[0]!.manifests.get(both) !== stored[1]!.manifests.get(both))
      throw new Violation(`the operators show two manifests of epoch ${both}`)
    if (this.#signed > Math.max(...stored.map(({ epoch }) => epoch))) throw new Violation('a signed epoch has gone')
    if (this.violations.length > 0) throw new Violation(this.violations[0])
  }

  /** Everything comes back, and nothing is lost any more. Returns how many batches were published; publishing has to go on, and a generation begins. */
  async heal(): Promise<number> {
    this.isCalm = true
    this.#wanted =
      1 + Math.max(...(await Promise.all(this.operators.map(each => each.stored()))).map(each => each.generation))
    for (const operator of this.operators) {
      for (const shard of operator.shards) shard.isUp = true
      await this.#restart(operator)
      operator.before = undefined
    }
    this.#publisher += 1
    const before = this.#made
    for (let steps = 0; steps < 4000; steps++) {
      await this.step()
      if (this.#made < before + 2) continue
      const stored = await Promise.all(this.operators.map(operator => operator.stored()))
      if (stored.some(({ generation }) => generation < this.#wanted)) continue
      if (stored[0]!.epoch === stored[1]!.epoch) return this.#made
    }
    throw new Violation('publishing does not go on')
  }

  /** Two processes of one operator both take themselves for the writer, and get a batch each. Returns what came of both. */
  async rivals(): Promise<string[]> {
    const [operator] = this.operators as [Operator]
    const first = operator.process
    await operator.start()
    const outcomes: string[] = []
    for (const { publishing, newest } of [first, operator.process]) {
      const body = this.#batchOn(newest, 1, this.#edits('x'))
      publishing.publish(body, undefined, false).then(
        ({ epoch }) => outcomes.push(`epoch ${epoch}`),
        error => outcomes.push(error instanceof Refusal ? error.code : 'failed'),
      )
    }
    this.isCalm = true
    for (let events = 0; events < 500 && outcomes.length < 2; events++) {
      await this.#run()
      await this.#settle()
    }
    return outcomes
  }

  /** Nothing goes on. */
  end(): void {
    this.#publisher += 1
    for (const { process } of this.operators) {
      process.isAlive = false
      process.publishing.stop()
    }
    this.#events = []
  }
}
