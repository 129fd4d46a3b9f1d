// The publisher's record: the manifests that it built, made or signed, and the batches that it sent, whole. A server can show
// anything, so the publisher builds only on what stands here (docs/operations/publish.md).
//
// It is a folder with a file for each entry, so two runs at once lose nothing. The names, ids and hashes in hex:
//   <database id>-<epoch>-<hash>-manifest-<hash of the batch that made it, if this publisher sent that>
//   <database id>-<epoch>-<hash>-<what the batch does>-<digest of its operations>, with the batch in it

import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { PublishError } from '../base/errors.js'
import { LEFT_BY_A_CRASH, writeWhole } from '../base/whole-file.js'

/** Ids and hashes are hex. */
export interface RecordedManifest {
  readonly databaseId: string
  readonly epoch: number
  readonly hash: string
  /** hash of the recorded batch that made it, if one did */
  readonly batch?: string | undefined
}

export interface RecordedBatch {
  readonly databaseId: string
  /** the one that the batch makes */
  readonly epoch: number
  readonly hash: string
  /** what it does; the last two change no record */
  readonly does: 'change' | 'generation' | 'renew'
  /** hash of encoding and operations (`digestOf` in batches.ts) */
  readonly digest: string
}

/** A file's name, read. `digest` of a manifest: the batch's hash, or nothing. */
interface RecordFile extends Omit<RecordedBatch, 'does'> {
  readonly name: string
  readonly kind: 'manifest' | RecordedBatch['does']
}

/** How many of the newest manifests and batches to keep for each database. A server further behind needs a new store. */
const KEPT = 256
/** a file's mode: for its owner alone */
const OWN = 0o600
const NAME = /^([0-9a-f]{32})-([0-9a-f]{8})-([0-9a-f]{64})-(manifest|change|generation|renew)-((?:[0-9a-f]{64})?)$/

/** A publisher's record, in a folder or in memory. */
export class PublisherRecord {
  readonly #folder: string | undefined
  /** newest first */
  #entries: readonly RecordFile[] = []
  /** batches by name, if it is in memory */
  readonly #batches = new Map<string, Uint8Array>()

  /** Without a folder the record is in memory. */
  constructor(folder?: string) {
    this.#folder = folder
  }

  /**
   * Reads the folder. A missing folder is an empty record.
   * @throws {PublishError} if it is not a record
   * @example
   * const record = await PublisherRecord.open('publisher.key.record')
   */
  static async open(folder: string): Promise<PublisherRecord> {
    const record = new PublisherRecord(folder)
    await record.#read()
    return record
  }

  /** The folder's name, or `memory`, for messages. */
  get place(): string {
    return this.#folder ?? 'memory'
  }

  /** Whether this publisher built, made or signed the manifest. */
  hasManifest(databaseId: string, hash: string): boolean {
    return this.#manifests(databaseId).some(manifest => manifest.hash === hash)
  }

  /** Whether this publisher sent the batch, or was about to. */
  hasBatch(databaseId: string, hash: string): boolean {
    return this.#batch(databaseId, hash) !== undefined
  }

  /** Hashes of the batches that this publisher sent for an epoch, or was about to. */
  batchesFor(databaseId: string, epoch: number): readonly string[] {
    const made = this.#entries.filter(entry => entry.databaseId === databaseId && entry.epoch === epoch)
    return made.filter(({ kind }) => kind !== 'manifest').map(({ hash }) => hash)
  }

  /** A recorded batch as it was sent. */
  async batch(databaseId: string, hash: string): Promise<Uint8Array<ArrayBuffer>> {
    const { name } = this.#batch(databaseId, hash)!
    return new Uint8Array(this.#batches.get(name) ?? (await readFile(join(this.#folder!, name))))
  }

  /** The epoch of the newest manifest of a database; 0: none is recorded. */
  newestEpoch(databaseId: string): number {
    return this.#manifests(databaseId)[0]?.epoch ?? 0
  }

  /** The newest epoch that a batch with this digest has made; undefined: none, as far as the record goes back. */
  publishedAt(databaseId: string, digest: string): number | undefined {
    return this.#manifests(databaseId).find(made => this.#batch(databaseId, made.digest)?.digest === digest)?.epoch
  }

  /** Whether the record knows that an epoch has the records of the one before it. */
  changesNothing(databaseId: string, epoch: number): boolean {
    const kinds = this.#manifests(databaseId).map(
      made => made.epoch === epoch && this.#batch(databaseId, made.digest)?.kind,
    )
    return kinds.some(kind => kind === 'generation' || kind === 'renew')
  }

  /** The manifest (hash) of this epoch that a batch made, if not this one, also by a run beside this one; undefined: none. */
  async otherThan({ databaseId, epoch, hash }: RecordedManifest): Promise<string | undefined> {
    await this.#read()
    const made = this.#manifests(databaseId).filter(each => each.epoch === epoch && each.digest !== '')
    return made.some(each => each.hash === hash) ? undefined : made[0]?.hash
  }

  /** Resolves when it is on disk. */
  async addManifest({ databaseId, epoch, hash, batch = '' }: RecordedManifest): Promise<void> {
    if (batch === '' && this.hasManifest(databaseId, hash)) return
    await this.#add([databaseId, hexOf(epoch), hash, 'manifest', batch].join('-'), new Uint8Array())
  }

  /** Resolves when it is on disk. `body` is the batch as it is sent. */
  async addBatch({ databaseId, epoch, hash, does, digest }: RecordedBatch, body: Uint8Array): Promise<void> {
    await this.#add([databaseId, hexOf(epoch), hash, does, digest].join('-'), body)
  }

  /** Notes the files that it does not know yet. */
  async #read(): Promise<void> {
    const folder = this.#folder
    const names =
      folder === undefined
        ? []
        : await readdir(folder).catch((error: NodeJS.ErrnoException) => {
            if (error.code === 'ENOENT') return []
            if (error.code !== 'ENOTDIR') throw error
            throw new PublishError(
              `${folder}: expected a publisher's record, which is a folder, got a file; name yours with --record`,
            )
          })
    for (const name of names) {
      if (!LEFT_BY_A_CRASH.test(name) && !this.#entries.some(entry => entry.name === name)) this.#note(name)
    }
  }

  #manifests(databaseId: string): readonly RecordFile[] {
    return this.#entries.filter(entry => entry.databaseId === databaseId && entry.kind === 'manifest')
  }

  #batch(databaseId: string, hash: string): RecordFile | undefined {
    return this.#entries.find(
      entry => entry.databaseId === databaseId && entry.kind !== 'manifest' && entry.hash === hash,
    )
  }

  #note(name: string): RecordFile {
    const [, databaseId, epoch, hash, kind, digest] = NAME.exec(name) ?? []
    if (epoch === undefined) {
      throw new PublishError(
        `${this.place}/${name}: expected a publisher's record, got another file; name yours with --record`,
      )
    }
    const entry = { name, databaseId, epoch: Number.parseInt(epoch, 16), hash, kind, digest } as RecordFile
    this.#entries = [...this.#entries, entry].sort((a, b) => b.epoch - a.epoch || (a.name < b.name ? 1 : -1))
    return entry
  }

  async #add(name: string, content: Uint8Array): Promise<void> {
    if (this.#entries.some(entry => entry.name === name)) return
    if (this.#folder === undefined) this.#batches.set(name, content.slice())
    else {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await writeWhole(join(this.#folder, name), content, OWN)
    }
    const { databaseId, kind } = this.#note(name)
    const isAlike = (entry: RecordFile) => (entry.kind === 'manifest') === (kind === 'manifest')
    const alike = this.#entries.filter(entry => entry.databaseId === databaseId && isAlike(entry))
    for (const oldest of alike.slice(KEPT)) {
      this.#entries = this.#entries.filter(entry => entry !== oldest)
      this.#batches.delete(oldest.name)
      if (this.#folder !== undefined) await rm(join(this.#folder, oldest.name), { force: true })
    }
  }
}

function hexOf(epoch: number): string {
  return epoch.toString(16).padStart(8, '0')
}
