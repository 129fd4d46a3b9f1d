// The publisher's record of the manifests that it built, made or signed, and of the batches that it sent. A server can show anything,
// so the publisher builds only on what stands here (docs/operations/publish.md).

import { open, readFile, rename, rm } from 'node:fs/promises'
import { PublishError } from '../base/errors.js'

/** Ids and hashes are hex. */
export interface RecordedManifest {
  readonly databaseId: string
  readonly epoch: number
  readonly hash: string
}

type Kind = 'manifest' | 'batch'

interface Entry extends RecordedManifest {
  readonly kind: Kind
}

/** How many of the newest entries to keep for each database and kind. A server further behind needs a new store. */
const KEPT = 256
const HEADER = 'keyhush publisher record v1'
const LINE = /^(manifest|batch) ([0-9a-f]{32}) ([1-9]\d{0,9}) ([0-9a-f]{64})$/

/** A publisher's record, in a file or in memory. */
export class PublisherRecord {
  readonly #file: string | undefined
  #entries: readonly Entry[] = []

  /** Without a file the record is in memory. */
  constructor(file?: string) {
    this.#file = file
  }

  /**
   * Reads the file. A missing file is an empty record.
   * @throws {PublishError} if it is not a record
   * @example
   * const record = await PublisherRecord.open('publisher.key.record')
   */
  static async open(file: string): Promise<PublisherRecord> {
    const record = new PublisherRecord(file)
    record.#entries = await readEntries(file)
    return record
  }

  /** The file's name, or `memory`, for messages. */
  get place(): string {
    return this.#file ?? 'memory'
  }

  /** Whether this publisher built, made or signed the manifest. */
  hasManifest(databaseId: string, hash: string): boolean {
    return this.#has('manifest', databaseId, hash)
  }

  /** Whether this publisher sent the batch, or was about to. */
  hasBatch(databaseId: string, hash: string): boolean {
    return this.#has('batch', databaseId, hash)
  }

  /** The epoch of the newest manifest of a database; 0: none is recorded. */
  newestEpoch(databaseId: string): number {
    const epochs = this.#entries.filter(entry => entry.kind === 'manifest' && entry.databaseId === databaseId)
    return Math.max(0, ...epochs.map(({ epoch }) => epoch))
  }

  async addManifest(manifest: RecordedManifest): Promise<void> {
    await this.#add({ kind: 'manifest', ...manifest })
  }

  /** `epoch` is the one that the batch makes. */
  async addBatch(batch: RecordedManifest): Promise<void> {
    await this.#add({ kind: 'batch', ...batch })
  }

  #has(kind: Kind, databaseId: string, hash: string): boolean {
    return this.#entries.some(entry => entry.kind === kind && entry.databaseId === databaseId && entry.hash === hash)
  }

  /** Resolves when the entry is on disk. */
  async #add(added: Entry): Promise<void> {
    // Another run of the publisher may have added entries.
    const before = this.#file === undefined ? this.#entries : await readEntries(this.#file)
    if (before.some(entry => lineOf(entry) === lineOf(added))) {
      this.#entries = before
      return
    }
    const alike = before.filter(({ kind, databaseId }) => kind === added.kind && databaseId === added.databaseId)
    const forgotten = new Set(alike.slice(0, Math.max(0, alike.length + 1 - KEPT)))
    this.#entries = [...before.filter(entry => !forgotten.has(entry)), added]
    if (this.#file !== undefined) await writeWhole(this.#file, [HEADER, ...this.#entries.map(lineOf)])
  }
}

function lineOf({ kind, databaseId, epoch, hash }: Entry): string {
  return `${kind} ${databaseId} ${epoch} ${hash}`
}

async function readEntries(file: string): Promise<Entry[]> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return `${HEADER}\n`
    throw error
  })
  const [header, ...lines] = text.split('\n')
  if (header !== HEADER || lines.pop() !== '')
    throw new PublishError(`${file}: expected a publisher's record, got another file; name yours with --record`)
  return lines.map((line, i) => {
    const [, kind, databaseId, epoch, hash] = LINE.exec(line) ?? []
    if (kind === undefined)
      throw new PublishError(`${file}: expected an entry on line ${i + 2}, got another text; restore your backup`)
    return { kind: kind as Kind, databaseId: databaseId!, epoch: Number(epoch), hash: hash! }
  })
}

/** Replaces the file. After a crash it is the old one or the new one, whole. */
async function writeWhole(file: string, lines: readonly string[]): Promise<void> {
  const fresh = `${file}.${process.pid}.new`
  try {
    const handle = await open(fresh, 'w', 0o600)
    try {
      await handle.writeFile(lines.map(line => `${line}\n`).join(''))
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(fresh, file)
  } catch (error) {
    await rm(fresh, { force: true })
    throw error
  }
}
