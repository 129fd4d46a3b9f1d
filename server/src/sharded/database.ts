// A sharded database at its coordinator. The store has manifests, signatures and the head: the epoch that clients see. The rest is made anew
// of the shards' manifests, and compared with what is stored.

import { setTimeout as sleep } from 'node:timers/promises'
import { decodeManifest, type EpochStatus, equalBytes, HASH_BYTES, type Manifest } from '@keyhush/protocol'
import { checkFollows } from '@keyhush/protocol/chain'
import { type Core, loadCore } from '@keyhush/wasm'
import { DatasetError, readingFrom } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { Announcements } from '../database/announcements.js'
import type { SignedFor } from '../database/batches.js'
import { ChangingEpochs, type ChangingOptions, systemClock } from '../database/changing-epochs.js'
import { type BatchRecord, EpochStore } from '../database/epoch-store.js'
import { type Answering, infoOf } from '../database/epochs.js'
import type { CheckedBatch } from '../database/publishing.js'
import { ANOTHER_PROCESS } from '../database/stored-values.js'
import type { KeyPair } from '../publisher/files.js'
import type { Storage } from '../storage/storage.js'
import { ShardedEpoch } from './epoch.js'
import { type Fabric, manifestCall } from './fabric.js'
import { ShardedLookups } from './lookups.js'
import { catchUp } from './parts.js'
import { ShardedPublishing, type Successor } from './publishing.js'

const PAUSE_MILLISECONDS = 1000
/** How long a coordinator that starts waits for its shards, which may start with it. */
const START_MILLISECONDS = 60_000

const CATCH_UP =
  'if its store is new or an older copy, give --catch-up the batches that it lacks (docs/operations/sharded.md)'
const BEGIN_ANEW =
  'begin the store anew: give --catch-up the newest manifest of another operator (docs/operations/sharded.md), and no batches'

type EpochNumbers = Pick<Manifest, 'generation' | 'epoch'>

/** The head, the epoch before, and one that is stored and not announced yet. */
class Heads implements Answering<ShardedEpoch> {
  newest: ShardedEpoch
  previous: ShardedEpoch | undefined
  staged: ShardedEpoch | undefined

  constructor(newest: ShardedEpoch, previous: ShardedEpoch | undefined) {
    this.newest = newest
    this.previous = previous
  }

  get latest(): ShardedEpoch {
    return this.staged ?? this.newest
  }

  get shown(): readonly ShardedEpoch[] {
    return this.previous === undefined ? [this.newest] : [this.previous, this.newest]
  }

  get all(): readonly ShardedEpoch[] {
    return this.staged === undefined ? this.shown : [...this.shown, this.staged]
  }

  find(generation: number, epoch: number): ShardedEpoch | undefined {
    return this.all.find(({ manifest }) => manifest.generation === generation && manifest.epoch === epoch)
  }
}

export interface ShardedOptions extends ChangingOptions {
  /** the shards of the next generation, which are answered once a batch has begun it */
  readonly next?: Fabric | undefined
  /** signs what shards are sent; without it nothing can be published here */
  readonly key?: KeyPair | undefined
  /** for shards that were built anew or put back; they need the key. For an empty store: the manifest that it begins with */
  readonly batches?: readonly Uint8Array[] | undefined
}

export class ShardedDatabase extends ChangingEpochs<ShardedEpoch> {
  readonly core: Core
  /** those of `open`, and of `next` */
  readonly fabrics: readonly Fabric[]
  readonly store: EpochStore
  readonly lookups: ShardedLookups
  /** undefined: without a key */
  readonly publishing: ShardedPublishing<ShardedEpoch> | undefined
  readonly #storage: Storage
  readonly #heads: Heads
  #announcements: Announcements | undefined
  #isClosed = false

  private constructor(
    storage: Storage,
    store: EpochStore,
    fabrics: readonly Fabric[],
    heads: Heads,
    options: ShardedOptions,
  ) {
    super(storage, store, heads, options)
    this.core = heads.newest.core
    this.fabrics = fabrics
    this.store = store
    this.lookups = new ShardedLookups(() => this.newest.shards.length)
    this.#storage = storage
    this.#heads = heads
    for (const { fabric, shards } of heads.shown) fabric.head = shards
    const { key, now = systemClock } = options
    if (key !== undefined) this.publishing = new ShardedPublishing(this, key, now)
  }

  /**
   * Opens the database in a storage, which is then this object's to close; the first time it is made of the shards' first epochs. Throws
   * DatasetError, which names the shard, unless all shards have what is stored. Those of `fabric` or of `next` may have it.
   */
  static async open(storage: Storage, fabric: Fabric, options: ShardedOptions = {}): Promise<ShardedDatabase> {
    const core = await loadCore()
    const store = new EpochStore(storage)
    const head = await readingFrom(storage.location, () => store.head())
    const end = performance.now() + START_MILLISECONDS
    const goesOn = ({ flag, problem }: Fabric) => {
      if (performance.now() < end) return true
      const hint =
        head === undefined
          ? `; if ${storage.location} was lost, ${BEGIN_ANEW}`
          : flag === '--shards' && fabrics.length > 1
            ? '; if --next has taken their place, give that as --shards'
            : `; start it, or ${CATCH_UP}`
      throw new DatasetError(flag, `expected all shards to answer within a minute, got: ${problem}${hint}`)
    }
    const fabrics = options.next === undefined ? [fabric] : [fabric, options.next]
    const { key, batches = [] } = options
    // A manifest has had its effect when the store was empty.
    const bodies = batches.filter(bytes => !isManifest(bytes))
    if (key !== undefined && head !== undefined && bodies.length > 0) {
      const own = await setOf(fabrics, head.generation, goesOn)
      const made = async (epoch: number) => (epoch > head.epoch ? 'none' : (await store.batch(epoch))?.batch)
      // Shards may start with it: what they have taken they do not lack when they are asked again.
      const send = () => catchUp({ core, fabric: own, key }, bodies, made)
      await patiently(own, goesOn, send).catch((error: Error) => {
        throw error instanceof DatasetError ? error : new DatasetError('--catch-up', error.message)
      })
    }
    let newest: ShardedEpoch
    if (head === undefined) {
      if (options.replica)
        throw new DatasetError(storage.location, 'the store is empty; first start the process without --replica')
      newest =
        batches.length === 0
          ? new ShardedEpoch(core, fabric, await shardsAt(fabric, { generation: 1, epoch: 1 }, goesOn))
          : await begunAnew(core, fabrics, batches, goesOn)
      const { manifest, manifestBytes: bytes, list } = newest
      await store.create({ manifest, bytes, list, directory: new Uint8Array(), chunk: undefined, proofs: undefined })
    } else {
      newest = await storedEpoch(core, store, fabrics, head.epoch, goesOn)
    }
    const { epoch } = newest.manifest
    // Shards that have the next epoch already may have forgotten the one before: clients of it are told so.
    const isForgotten = (error: unknown) => error instanceof Refusal && error.code === 'epoch_unknown'
    const previous =
      (await store.manifest(epoch - 1)) === undefined
        ? undefined
        : await storedEpoch(core, store, fabrics, epoch - 1, goesOn, isForgotten).catch((error: Error) => {
            if (!isForgotten(error) && !(error instanceof OtherGenerationError)) throw error
            return undefined
          })
    const heads = new Heads(newest, previous)
    const database = new ShardedDatabase(storage, store, fabrics, heads, options)
    await database.past.index()
    await database.signed.read()
    await database.#join(options.replica ?? false)
    database.#leave()
    if (!options.replica) await database.publishing?.resume()
    return database
  }

  /** Makes an epoch of a batch; see ShardedPublishing. */
  async publish(body: Uint8Array, signed?: SignedFor, isLate = false): Promise<EpochStatus> {
    return await this.#publisher().publish(body, signed, isLate)
  }

  /** Says what a batch would make, or why it is refused; see ShardedPublishing. */
  async check(body: Uint8Array, signed?: SignedFor, isLate = false): Promise<CheckedBatch> {
    return await this.#publisher().check(body, signed, isLate)
  }

  #publisher(): ShardedPublishing<ShardedEpoch> {
    this.checkWrites()
    if (this.publishing !== undefined) return this.publishing
    throw new Refusal('not_ready', 'this coordinator has no --shard-key; restart it with the key that its shards know')
  }

  /** those of the head */
  get fabric(): Fabric {
    return this.newest.fabric
  }

  /** Which shard that clients need does not answer, for the operator; undefined: all do. */
  get problem(): string | undefined {
    return this.#heads.shown.map(({ fabric }) => fabric.problem).find(problem => problem !== undefined)
  }

  /** the shards of the next generation */
  get next(): Fabric | undefined {
    return this.fabrics[this.fabrics.indexOf(this.fabric) + 1]
  }

  /** Asks shards of generations that have ended no more. */
  #leave(): void {
    const isAnswered = (fabric: Fabric) => this.#heads.all.some(epoch => epoch.fabric === fabric)
    for (const before of this.fabrics.slice(0, this.fabrics.indexOf(this.fabric)))
      if (!isAnswered(before)) before.close()
  }

  get behind(): string | undefined {
    return this.#announcements?.behind
  }

  /** The epoch that follows the newest, of its shards' manifests. Throws DatasetError or WireError if they make none. Nothing is stored. */
  successor({ fabric, shards, expires }: Successor<ShardedEpoch>): ShardedEpoch {
    const { manifest, manifestBytes } = this.newest
    const { databaseId } = manifest
    const previousManifest = this.core.blake3(manifestBytes)
    const next = new ShardedEpoch(this.core, fabric, shards, { databaseId, previousManifest, expires })
    checkFollows(manifest, next.manifest)
    return next
  }

  /** Stores the next epoch, which all shards have, and shows it once all processes can. `onStored`: called before they do. */
  async advance(
    next: ShardedEpoch,
    batch: BatchRecord,
    onStored: (status: EpochStatus) => void = () => {},
  ): Promise<EpochStatus> {
    const { manifest, manifestBytes: bytes, list } = next
    const { epoch } = manifest
    const isAdded = await this.store.append({ manifest, bytes, list, batch, base: epoch, oldest: epoch - this.history })
    // A write that was said to have failed may have reached the disk, and another writer makes the same epoch.
    if (!isAdded && !(await this.store.isNewest(epoch, bytes))) throw new Error(ANOTHER_PROCESS)
    const status = { ...infoOf(next), ...batch }
    this.past.noteStatus(status)
    this.#heads.staged = next
    onStored(status)
    await this.#announcements?.announced(epoch)
    this.#show()
    return status
  }

  #show(): void {
    const { staged, newest, previous } = this.#heads
    if (staged === undefined) return
    this.#heads.staged = undefined
    // A process that was behind may have left some out.
    const isNext = staged.manifest.epoch === newest.manifest.epoch + 1
    this.#heads.previous = isNext ? newest : undefined
    this.#heads.newest = staged
    staged.fabric.head = staged.shards
    previous?.close()
    if (!isNext) newest.close()
    this.#leave()
    this.shown(staged)
  }

  async #join(isReplica: boolean): Promise<void> {
    const { engine } = this.#storage
    if (engine === undefined) return
    this.#announcements = await Announcements.begin(engine, {
      writes: !isReplica,
      has: () => this.#heads.latest.manifest.epoch,
      shows: () => this.newest.manifest.epoch,
      catchUp: () => this.#catchUp(),
      show: epoch => {
        if (epoch >= this.#heads.latest.manifest.epoch) this.#show()
      },
      fail: error => this.onFailure(error),
    })
    this.signed.follow(engine)
  }

  /** Takes up what the process that writes has stored since. */
  async #catchUp(): Promise<void> {
    const head = await this.store.head()
    if (head === undefined || head.epoch <= this.#heads.latest.manifest.epoch || this.#isClosed) return
    this.#show() // it has been announced: there is a later one
    const goesOn = () => !this.#isClosed
    this.#heads.staged = await storedEpoch(this.core, this.store, this.fabrics, head.epoch, goesOn)
    await this.past.index()
  }

  /** After what is under way. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.publishing?.stop()
    await this.lookups.close()
    for (const fabric of this.fabrics) fabric.close()
    await this.#announcements?.stop()
    this.signed.close()
    for (const epoch of this.#heads.all) epoch.close()
    await this.#storage.close()
  }
}

function isManifest(bytes: Uint8Array): boolean {
  try {
    decodeManifest(bytes)
    return true
  } catch {
    return false
  }
}

/** No shards are of the generation that is asked for. */
class OtherGenerationError extends DatasetError {}

/** Whether to ask these again. Or throws. */
type GoesOn = (fabric: Fabric) => boolean

/** Tries again while shards are away, and `goesOn`. */
async function patiently<T>(fabric: Fabric, goesOn: GoesOn, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const isAway = error instanceof Refusal && error.code === 'not_ready'
      if (!isAway || !goesOn(fabric)) throw error
      await sleep(PAUSE_MILLISECONDS)
    }
  }
}

/** Which shards are of a generation. Asks again while `goesOn`. Throws OtherGenerationError if none are. */
async function setOf(fabrics: readonly Fabric[], generation: number, goesOn: GoesOn): Promise<Fabric> {
  const read = (bytes: Uint8Array) => decodeManifest(bytes).generation
  const call = { ...manifestCall(), isRight: read }
  for (;;) {
    const found = await Promise.all(
      fabrics.map(fabric =>
        fabric.ask(0, call).then(read, (error: Error) => {
          if (!(error instanceof Refusal)) throw error
        }),
      ),
    )
    const at = found.indexOf(generation)
    if (at >= 0) return fabrics[at]!
    const away = fabrics[found.indexOf(undefined)]
    if (away === undefined) {
      const remedy = found.every(other => other! < generation)
        ? 'give those that --next named'
        : `give these as --next, and those of generation ${generation} as --shards, until a batch begins the next`
      const expected = `expected shards of generation ${generation}, got generation ${found.join(' and ')}`
      throw new OtherGenerationError(fabrics[0]!.flag, `${expected}; ${remedy}`)
    }
    if (!goesOn(away)) throw new Refusal('not_ready', 'a part of this database does not answer now; try again')
    await sleep(PAUSE_MILLISECONDS)
  }
}

/** An epoch as it is stored. Throws as `epochWith` does. */
async function storedEpoch(
  core: Core,
  store: EpochStore,
  fabrics: readonly Fabric[],
  epoch: number,
  goesOn: GoesOn,
  passesOn?: (refusal: Refusal) => boolean,
) {
  const { location } = store
  const [bytes, list = new Uint8Array()] = await readingFrom(location, async () => [
    await store.manifest(epoch),
    await store.lists.read(epoch),
  ])
  return await epochWith(core, fabrics, { location, bytes, list }, goesOn, passesOn)
}

/** The epoch that a store begins with, of another operator's manifest. Throws as `epochWith` does. */
async function begunAnew(core: Core, fabrics: readonly Fabric[], files: readonly Uint8Array[], goesOn: GoesOn) {
  const [bytes, ...others] = files as [Uint8Array, ...Uint8Array[]]
  if (others.length > 0 || !isManifest(bytes))
    throw new DatasetError('--catch-up', `expected one manifest with an empty store, got others; ${BEGIN_ANEW}`)
  return await epochWith(core, fabrics, { location: '--catch-up', bytes, list: undefined }, goesOn)
}

/** Where an epoch's manifest and shard list come from, and what they are. */
interface KnownEpoch {
  readonly location: string
  readonly bytes: Uint8Array | undefined
  /** undefined: it is not known */
  readonly list: Uint8Array | undefined
}

/**
 * An epoch with this manifest, of the shards' manifests. Throws DatasetError, which names the shard that has another, and what `passesOn`
 * says.
 */
async function epochWith(
  core: Core,
  fabrics: readonly Fabric[],
  { location, bytes, list }: KnownEpoch,
  goesOn: GoesOn,
  passesOn?: (refusal: Refusal) => boolean,
): Promise<ShardedEpoch> {
  const refuse = (reason: string, where = location): never => {
    throw new DatasetError(where, `${reason}. Nothing is answered before it is as it was`)
  }
  const manifest = await readingFrom(location, () => bytes && decodeManifest(bytes))
  if (manifest?.shards === undefined) return refuse('expected the manifest of a sharded database, got another')
  const { epoch } = manifest
  const fabric = await setOf(fabrics, manifest.generation, goesOn)
  if (manifest.shards !== fabric.shards)
    return refuse(`expected a database of ${fabric.shards} shards, got one of ${manifest.shards}`)
  const shards = await shardsAt(fabric, manifest, goesOn, passesOn)
  const other = shards.findIndex(
    ({ bytes }, shard) =>
      list !== undefined &&
      !equalBytes(core.blake3(bytes), list.subarray(shard * HASH_BYTES, (shard + 1) * HASH_BYTES)),
  )
  if (other >= 0)
    return refuse(`expected the manifest of epoch ${epoch} that ${location} names, got another`, `shard ${other}`)
  const made = new ShardedEpoch(core, fabric, shards, manifest)
  if (equalBytes(made.manifestBytes, bytes!)) return made
  made.close()
  return refuse(`expected the manifest of epoch ${epoch} that the shards make, got another`)
}

/** The shards' manifests of an epoch. Asks again while `goesOn`; then throws a `not_ready` Refusal, and the fabric says which does not answer. */
export async function shardsAt(
  fabric: Fabric,
  { generation, epoch }: EpochNumbers,
  goesOn: GoesOn,
  passesOn: (refusal: Refusal) => boolean = () => false,
) {
  const read = (bytes: Uint8Array): KnownManifest => {
    const manifest = decodeManifest(bytes)
    if (manifest.generation === generation && manifest.epoch === epoch) return { manifest, bytes }
    throw new Error(`expected the manifest of epoch ${epoch}, got another`)
  }
  const call = { ...manifestCall({ generation, epoch }), isRight: read, passesOn }
  const all = Array.from({ length: fabric.shards }, (_, shard) => shard)
  return await patiently(fabric, goesOn, () => Promise.all(all.map(async shard => read(await fabric.ask(shard, call)))))
}
