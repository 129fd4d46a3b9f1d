// Batches of a sharded database. All its shards count one epoch:
//
//   1. A batch is cut by keys. Each shard checks its part. If one refuses, the batch is refused, and nothing has changed.
//   2. The batch is stored as the intent. From then on it makes the next epoch, and no other does.
//   3. Each shard gets its part until it has it. A shard that refuses is named, and asked again.
//   4. Once all shards have the epoch, one transaction moves the head, and clients may know.
//
// The batch of a new generation has no parts: it names shards that were built on the head, and these are the next epoch.
//
// After a start the intent is finished. Two processes that both take themselves for the writer send the same parts.

import { setTimeout as sleep } from 'node:timers/promises'
import { type Batch, decodeBatch, type EpochStatus, toHex } from '@keyhush/protocol'
import { isTrap } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { checkExpiry, isNext, madeBefore, readBatch, type SignedFor } from '../database/batches.js'
import type { BatchRecord, EpochStore } from '../database/epoch-store.js'
import type { AnyEpoch } from '../database/epochs.js'
import { type BeginGeneration, type Operations, readOperations, refuse } from '../database/operations.js'
import type { CheckedBatch } from '../database/publishing.js'
import { newQueue } from '../database/queue.js'
import { hashed } from '../dataset/hashing.js'
import type { KeyPair } from '../publisher/files.js'
import { StorageError } from '../storage/storage.js'
import { readNextSet } from './next.js'
import { cut, type Made, partOn, publishPart, type ShardPart, type ShardSet, type Shards, sendPart } from './parts.js'

/** An epoch, with its shards and their manifests. */
export interface EpochOfShards extends Omit<AnyEpoch, 'core'> {
  readonly fabric: ShardSet
  readonly shards: readonly KnownManifest[]
  close(): void
}

/** What an epoch after the newest is made of. */
export interface Successor<E extends EpochOfShards> extends Pick<E, 'fabric' | 'shards'> {
  readonly expires: number
}

/** What publishing needs of a sharded database. */
export interface PublishedShards<E extends EpochOfShards> extends Pick<Shards, 'core'> {
  readonly store: Pick<EpochStore, 'intend' | 'intent'>
  /** the head */
  readonly newest: E
  /** the shards of the next generation; undefined: there are none */
  readonly next: E['fabric'] | undefined
  status(epoch: number): EpochStatus | undefined
  successor(of: Successor<E>): E
  /** Stores and shows the next epoch. Calls `onStored` in between. */
  advance(next: E, batch: BatchRecord, onStored: (status: EpochStatus) => void): Promise<unknown>
  /** Memory and disk have parted. */
  onFailure(error: Error): void
}

/** What did not reply to a check, and is asked again. */
interface Doubted {
  readonly what: string
  readonly ask: () => Promise<unknown>
  readonly note: (error: Error) => unknown
}

/** A batch that is stored as the intent. */
interface Begun {
  readonly hash: string
  readonly status: Promise<EpochStatus>
}

const PAUSE_MILLISECONDS = 1000
const NEXT = '--next'
const FULL =
  'the shard of this key is full; leave the line out, or build the next generation (docs/operations/sharded.md)'

export class ShardedPublishing<E extends EpochOfShards> {
  /** called when a shard does not take its part */
  onProblem: (problem: string) => void = () => {}
  readonly #database: PublishedShards<E>
  readonly #key: KeyPair
  readonly #now: () => number
  readonly #queue = newQueue()
  readonly #pause: () => Promise<unknown>
  readonly #stopping = new AbortController()
  #begun: Begun | undefined
  /** of the newest check, while no batch has begun since */
  #doubted: readonly Doubted[] = []
  /** by what has it */
  readonly #problems = new Map<string, string>()

  /** `now`: seconds since 1970. `pause`: between two attempts; default: a second. */
  constructor(database: PublishedShards<E>, key: KeyPair, now: () => number, pause?: () => Promise<unknown>) {
    const { signal } = this.#stopping
    this.#database = database
    this.#key = key
    this.#now = now
    this.#pause = pause ?? (() => sleep(PAUSE_MILLISECONDS, undefined, { signal }).catch(() => {}))
  }

  /** Which shard takes no batches, for the operator; undefined: none. */
  get problem(): string | undefined {
    return this.#problems.values().next().value
  }

  /** Goes on with what an earlier process has begun. */
  async resume(): Promise<void> {
    const { store } = this.#database
    await this.#queue(async () => {
      const intent = await store.intent()
      if (intent?.epoch === this.#database.newest.manifest.epoch + 1) await this.#begin(intent.bytes)
    })
  }

  /** Nothing is sent or stored afterwards. */
  stop(): void {
    this.#stopping.abort()
  }

  /** Makes an epoch of a batch, unless it was made before, as `Publishing` does. Throws a Refusal. */
  async publish(body: Uint8Array, signed: SignedFor | undefined, isLate: boolean): Promise<EpochStatus> {
    const { status } = await this.#queue(async () => {
      const { store, newest } = this.#database
      const { hash, batch, made } = await this.#read(body, signed)
      if (made !== undefined) return { status: Promise.resolve(made) }
      if (this.#begun !== undefined) return this.#begun
      if (!isLate) checkExpiry(batch, this.#now())
      await this.#check(batch)
      const intent = await store.intend(newest.manifest.epoch + 1, body).catch(this.#fail)
      const begun = await this.#begin(intent)
      return begun.hash === hash ? begun : refuseOther(batch)
    })
    return await status
  }

  /** Says what a batch would make, or why it is refused. Nothing changes. */
  async check(body: Uint8Array, signed: SignedFor | undefined, isLate: boolean): Promise<CheckedBatch> {
    return await this.#queue(async () => {
      const { newest } = this.#database
      const { batch, made } = await this.#read(body, signed)
      const { generation, epoch } = batch
      if (made === undefined && this.#begun === undefined) {
        if (!isLate) checkExpiry(batch, this.#now())
        await this.#check(batch)
      }
      return { generation, epoch, partitions: newest.manifest.partitions }
    })
  }

  /** `made`: by this batch, before. Throws a Refusal if another batch has made that epoch, or has begun to. */
  async #read(body: Uint8Array, signed: SignedFor | undefined) {
    const bytes = await hashed(this.#database.core, body)
    const [batch, hash] = [readBatch(body, bytes, signed), toHex(bytes)]
    const isNew = isNext(batch, this.#database.newest)
    const made = isNew ? undefined : madeBefore(batch, hash, this.#database.status(batch.epoch))
    if (isNew && this.#begun !== undefined && this.#begun.hash !== hash) refuseOther(batch)
    return { hash, batch, made }
  }

  get #shards(): Shards {
    const { core, newest } = this.#database
    return { core, key: this.#key, fabric: newest.fabric }
  }

  /** Throws a Refusal unless every shard would take its part, or the next generation can begin. */
  async #check(batch: Batch): Promise<void> {
    const { core, newest } = this.#database
    const read = await readOperations(core, newest.manifest, batch)
    if (!('headroom' in read)) return await this.#checkParts(batch, read)
    const ask = async () => (await this.#nextGeneration(batch, read)).close()
    const next = { what: NEXT, ask, note: (error: Error) => this.#noteNext(batch, error) }
    if (!(await this.#replies(next))) {
      this.#askAgain([next])
      throw new Refusal('not_ready', 'a shard of the next generation does not answer; run it again')
    }
  }

  /** Whether it does, and takes the batch. Throws its refusal of the batch. */
  async #replies({ what, ask, note }: Doubted): Promise<boolean> {
    try {
      await ask()
    } catch (error) {
      if (isTrap(error)) throw error
      if (!(error instanceof Refusal) || error.code !== 'batch_refused') {
        note(error as Error)
        return false
      }
      this.#problems.delete(what)
      throw error
    }
    this.#problems.delete(what)
    return true
  }

  /** Asks until each replies, so that a problem which is over is not shown. */
  #askAgain(doubted: readonly Doubted[]): void {
    this.#doubted = doubted
    const isOver = () => this.#doubted !== doubted || this.#stopping.signal.aborted
    const untilReply = async (each: Doubted) => {
      const note = (error: Error) => isOver() || each.note(error)
      do await this.#pause()
      while (!isOver() && !(await this.#replies({ ...each, note }).catch(() => true)))
    }
    for (const each of doubted) void untilReply(each)
  }

  /** The first epoch of the next generation. Throws a `batch_refused` Refusal unless all its shards stand on the head. */
  async #nextGeneration({ expires }: Batch, { shards: named }: BeginGeneration): Promise<E> {
    const { core, newest, next: fabric } = this.#database
    if (fabric === undefined)
      refuse(1, 'expected shards of the next generation, got none; restart the coordinator with --next')
    const { manifest, manifestBytes: bytes } = newest
    const shards = await readNextSet(core, fabric, { manifest, bytes }, named)
    try {
      return this.#database.successor({ fabric, shards, expires })
    } catch (error) {
      if (isTrap(error)) throw error
      return refuse(1, `--next: ${(error as Error).message}`)
    }
  }

  /** Throws a Refusal unless every shard would take its part. */
  async #checkParts(batch: Batch, read: Operations): Promise<void> {
    const { core, newest } = this.#database
    const { fabric, manifest } = newest
    const refused: { readonly line: number; readonly reason: string }[] = []
    const away: Doubted[] = []
    const check = async (part: ShardPart, shard: number) => {
      const known = newest.shards[shard]!
      const body = partOn(core, known, batch, part)
      const ask = async () => {
        const { partitions } = (await sendPart(this.#shards, shard, body, 'check')) as CheckedBatch
        if (partitions > known.manifest.partitions) refused.push({ line: part.lastAdd, reason: FULL })
      }
      const doubted = { what: `shard ${shard}`, ask, note: (error: Error) => this.#note(shard, batch, error) }
      try {
        if (!(await this.#replies(doubted))) away.push(doubted)
      } catch (error) {
        const { message, reply } = error as Refusal
        const line = part.lines[(reply.line ?? 0) - 1] ?? Number.POSITIVE_INFINITY
        refused.push({ line, reason: message.includes('begin a new') ? FULL : message.replace(/^line \d+: /, '') })
      }
    }
    await Promise.all((await cut(core, manifest, batch, read, fabric.shards)).map(check))
    this.#askAgain(away)
    const [first] = refused.sort((a, b) => a.line - b.line)
    if (first !== undefined && first.line < Number.POSITIVE_INFINITY) refuse(first.line, first.reason)
    if (first !== undefined) throw new Refusal('batch_refused', first.reason)
    if (away.length > 0) throw new Refusal('not_ready', 'a part of this database takes no batches now; run it again')
  }

  /** The intent is on disk. */
  async #begin(body: Uint8Array): Promise<Begun> {
    const hash = toHex(await hashed(this.#database.core, body))
    const status = this.#finish(decodeBatch(body), hash).catch(this.#fail)
    status.catch(() => {}) // nobody may be waiting
    this.#begun = { hash, status }
    this.#doubted = []
    return this.#begun
  }

  async #finish(batch: Batch, hash: string): Promise<EpochStatus> {
    const { core, newest } = this.#database
    const read = await readOperations(core, newest.manifest, batch)
    const { next, changes } = await ('headroom' in read ? this.#takeNext(batch, read) : this.#deliver(batch, read))
    return await new Promise<EpochStatus>((resolve, reject) => {
      const moved = this.#queue(async () => {
        const record = { batch: hash, changes }
        await this.#untilDone(
          () => this.#database.advance(next, record, resolve),
          error => {
            if (!(error instanceof StorageError)) throw error
          },
        )
        this.#begun = undefined
      })
      moved.catch(reject)
    })
  }

  async #takeNext(batch: Batch, read: BeginGeneration) {
    const next = await this.#untilDone(
      () => this.#nextGeneration(batch, read),
      error => {
        if (isTrap(error)) throw error
        this.#noteNext(batch, error)
      },
    )
    this.#problems.delete(NEXT)
    return { next, changes: 0 }
  }

  /** Has all shards make the next epoch. */
  async #deliver(batch: Batch, read: Operations) {
    const { core, newest } = this.#database
    const { fabric, manifest } = newest
    const parts = await cut(core, manifest, batch, read, fabric.shards)
    const deliver = async (part: ShardPart, shard: number): Promise<Made> => {
      const body = partOn(core, newest.shards[shard]!, batch, part)
      return await this.#untilDone(
        async () => {
          const made = await publishPart(this.#shards, shard, body)
          this.#problems.delete(`shard ${shard}`)
          return made
        },
        error => this.#note(shard, batch, error),
      )
    }
    const made = await Promise.all(parts.map(deliver))
    const changes = made.reduce((sum, each) => sum + each.changes, 0)
    const { expires } = batch
    return { next: this.#database.successor({ fabric, shards: made.map(({ known }) => known), expires }), changes }
  }

  /** Tries `work` again after each failure that `note` does not throw, until this is stopped. */
  async #untilDone<T>(work: () => Promise<T>, note: (error: Error) => void): Promise<T> {
    for (;;) {
      if (this.#stopping.signal.aborted) throw new Refusal('not_ready', 'this server stops; run it again')
      try {
        return await work()
      } catch (error) {
        note(error as Error)
        await this.#pause()
      }
    }
  }

  /** Memory and disk have parted, unless the error only says that nothing was written. */
  readonly #fail = (error: unknown): never => {
    if (!(error instanceof StorageError) && !this.#stopping.signal.aborted) this.#database.onFailure(error as Error)
    throw error
  }

  #note(shard: number, { epoch }: Batch, error: Error): void {
    const expected = `expected it to take its part of epoch ${epoch}`
    this.#noteOf(`shard ${shard}`, `${expected}, got: ${error.message}; ${remedyOf(error)}`)
  }

  #noteNext({ epoch }: Batch, error: Error): void {
    this.#noteOf(NEXT, `expected its shards to make epoch ${epoch}, got: ${error.message}; it is asked again`)
  }

  #noteOf(what: string, problem: string): void {
    const whole = `${what}: ${problem}`
    if (this.#problems.get(what) !== whole) this.onProblem(whole)
    this.#problems.set(what, whole)
  }
}

/** What the operator does about a shard that does not take its part. */
function remedyOf(error: Error): string {
  const code = error instanceof Refusal ? error.code : undefined
  if (code === 'unauthorized') return 'start it with the public half of --shard-key as --publisher-key'
  // Also of what publishPart has thrown: the shard has made another epoch of it.
  const isOther = code === undefined || ['batch_conflict', 'epoch_gap', 'wrong_database'].includes(code)
  if (isOther) return 'if this lasts, build it anew and restart the coordinator with --catch-up'
  return 'it is asked again; if this lasts, see its log'
}

function refuseOther({ epoch }: Batch): never {
  throw new Refusal('batch_conflict', `expected the batch that has begun to make epoch ${epoch} here, got another`)
}
