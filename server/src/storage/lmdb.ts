// A storage in an LMDB file, `data.mdb` in a directory of its own. A transaction is on disk (fsync) when it resolves,
// and after a crash at any moment the file holds whole transactions only.

import {
  type BigIntStats,
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { getSystemErrorName } from 'node:util'
import type { RootDatabase } from 'lmdb'
import { DatasetError, MissingPackageError } from '../base/errors.js'
import { lockStore } from './lock.js'
import { Draft, PAGE_BYTES, type Storage, StorageError, type Transaction } from './storage.js'

const FILE = 'data.mdb'

/** Where an LMDB file of data version 2 has these in its two first pages. The page of the later transaction is valid. */
const HEAD = { magic: 24, lastPage: 144, transaction: 152 } as const
const MAGIC = 0xbeefc0de
const LOCK_BYTES = 64 * 1024
/** Only the server's user reads a store: the fence in it shows when each hint moves. */
const FOLDER_MODE = 0o700
const FILE_MODE = 0o600
const EIO = 5

/** Whether there is a store in `dir`. */
export function storeExists(dir: string): boolean {
  return (statSync(join(dir, FILE), { throwIfNoEntry: false })?.size ?? 0) > 0
}

/**
 * Opens the store in `dir`, or makes one.
 * @throws {DatasetError} naming the file, if that is not one of ours, or another process has it open
 * @throws {MissingPackageError} if LMDB's binary for this machine is not installed
 * @example
 * const storage = await openLmdb('store')
 */
export async function openLmdb(dir: string): Promise<Storage> {
  const location = join(dir, FILE)
  const lmdb = await loadLmdb()
  mkdirSync(dir, { recursive: true, mode: FOLDER_MODE })
  const unlock = lockStore(dir)
  try {
    if (storeExists(dir)) checkFile(location)
    allocateLocks(dir)
    return new LmdbStorage(location, openDatabase(lmdb, dir, location), unlock)
  } catch (error) {
    unlock()
    throw error
  }
}

type Lmdb = typeof import('lmdb')

/**
 * Loaded when a store is opened: package managers may leave its binary out, and all else works without. Imported: what `require` loads
 * does not find its binary in a folder with #, ? or % in its path.
 */
async function loadLmdb(): Promise<Lmdb> {
  try {
    return await import('lmdb')
  } catch (error) {
    const expected = `expected the package @lmdb/lmdb-${process.platform}-${process.arch}, which a store in a directory needs`
    const [reason] = (error as Error).message.split('\n', 1)
    throw new MissingPackageError(
      `${expected}, got: ${reason}. Install on this machine, without --omit=optional; or name a store in PostgreSQL`,
    )
  }
}

function openDatabase({ open }: Lmdb, dir: string, location: string): RootDatabase<Uint8Array, Buffer> {
  try {
    return open<Uint8Array, Buffer>({
      path: dir,
      ...{ permissionsMode: FILE_MODE }, // which its types lack
      noSubdir: false,
      encoding: 'binary',
      keyEncoding: 'binary',
      pageSize: PAGE_BYTES,
      // A transaction is on disk when it resolves, not some time after.
      overlappingSync: false,
      // With it there are promises that no code can catch, and they reject when the disk is full.
      eventTurnBatching: false,
    })
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown }
    const instead = code === EIO ? '; is the disk full?' : ''
    throw new DatasetError(location, `expected a store that opens, got: ${message}${instead}`)
  }
}

/** LMDB maps this file: on a full disk the process would die when it first writes there. */
function allocateLocks(dir: string): void {
  const path = join(dir, 'lock.mdb')
  if (existsSync(path)) return
  try {
    writeFileSync(path, Buffer.alloc(LOCK_BYTES), { flush: true, mode: FILE_MODE })
  } catch (error) {
    rmSync(path, { force: true })
    throw new DatasetError(path, `cannot be written (${(error as NodeJS.ErrnoException).code}); is the disk full?`)
  }
}

/** Stops LMDB's binding from writing failed commits to the console: they are StorageErrors already. */
export function silenceCommits(): void {
  const { error: write } = console
  console.error = (...words: unknown[]) => {
    const [error] = words
    const isCommit = error instanceof Error && typeof (error as { code?: unknown }).code === 'number'
    if (!isCommit || !error.stack?.includes('lmdb')) write(...words)
  }
}

/** Refuses a file that was cut off, or is something else: at the first missing page that LMDB reads, the process would die. */
function checkFile(location: string): void {
  const fd = openSync(location, 'r')
  try {
    const heads = Buffer.alloc(2 * PAGE_BYTES)
    const isWhole = readSync(fd, heads, 0, heads.length, 0) === heads.length
    if (!isWhole)
      throw new DatasetError(location, 'it was cut off: expected at least two pages, got fewer; begin a new store')
    const [earlier, later] = [heads.subarray(0, PAGE_BYTES), heads.subarray(PAGE_BYTES)]
    const isLater = later.readBigUInt64LE(HEAD.transaction) > earlier.readBigUInt64LE(HEAD.transaction)
    const head = isLater ? later : earlier
    if (head.readUInt32LE(HEAD.magic) !== MAGIC)
      throw new DatasetError(location, 'expected a store, got another file; begin a new store')
    const expected = (head.readBigUInt64LE(HEAD.lastPage) + 1n) * BigInt(PAGE_BYTES)
    const { size } = fstatSync(fd)
    if (BigInt(size) >= expected) return
    throw new DatasetError(location, `it was cut off: expected ${expected} bytes, got ${size}; begin a new store`)
  } finally {
    closeSync(fd)
  }
}

class LmdbStorage implements Storage {
  readonly location: string
  failure: string | undefined
  readonly #database: RootDatabase<Uint8Array, Buffer>
  readonly #unlock: () => void
  /** the open file, as the system knows it */
  readonly #file: BigIntStats

  constructor(location: string, database: RootDatabase<Uint8Array, Buffer>, unlock: () => void) {
    this.location = location
    this.#database = database
    this.#unlock = unlock
    this.#file = statSync(location, { bigint: true })
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return this.#read(key)
  }

  #read(key: string): Uint8Array | undefined {
    return this.#database.get(Buffer.from(key))
  }

  async *entries(prefix: string, after?: string): AsyncIterable<readonly [string, Uint8Array]> {
    const { start, end } = rangeOf(prefix)
    const from = after === undefined ? start : Buffer.from(`${after}\0`)
    for (const { key, value } of this.#database.getRange({ start: from, end })) yield [key.toString(), value]
  }

  async count(prefix: string): Promise<number> {
    return this.#database.getKeysCount(rangeOf(prefix))
  }

  async transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T> {
    const misplaced = this.#misplaced()
    if (misplaced !== undefined) {
      this.failure = misplaced.message
      throw misplaced
    }
    // What `work` throws is caught inside, before anything is written, and thrown again outside.
    const writing = this.#database.transaction(() => {
      const draft = new Draft(keys, key => this.#read(key))
      let result: T
      try {
        result = work(draft)
      } catch (error) {
        return { error }
      }
      for (const [key, value] of draft.writes) {
        // If the commit fails, these reject as well as the transaction.
        const done =
          value === undefined
            ? this.#database.remove(Buffer.from(key))
            : this.#database.put(Buffer.from(key), asBuffer(value))
        done.catch(() => {})
      }
      return { result }
    })
    const outcome = await writing.catch(async (error: unknown) => {
      const failed = new StorageError(await causeOf(error))
      this.failure = failed.message
      throw failed
    })
    this.failure = undefined
    if ('error' in outcome) throw outcome.error
    return outcome.result
  }

  /** Why nothing is written. The system would let a removed file be written, but the next start could not find it. */
  #misplaced(): StorageError | undefined {
    let there: BigIntStats | undefined
    try {
      there = statSync(this.location, { bigint: true, throwIfNoEntry: false })
    } catch (error) {
      return new StorageError((error as NodeJS.ErrnoException).code ?? 'unknown')
    }
    if (there === undefined) return new StorageError('ENOENT', 'the store cannot be written (ENOENT: its file is gone)')
    if (there.dev === this.#file.dev && there.ino === this.#file.ino) return undefined
    return new StorageError('ESTALE', 'the store cannot be written (ESTALE: its file was replaced)')
  }

  async close(): Promise<void> {
    try {
      await this.#database.close()
    } finally {
      this.#unlock()
    }
  }
}

/** How long to wait for the cause of a failure. */
const CAUSE_MILLISECONDS = 1000

/** The system's name for why a commit failed. LMDB's binding gives a promise that rejects with it, or sometimes never settles. */
export async function causeOf(error: unknown): Promise<string> {
  const { commitError } = error as { commitError?: Promise<unknown> }
  const told = Promise.resolve(commitError).then(
    () => error,
    (reason: unknown) => reason,
  )
  const cause = await Promise.race([told, sleep(CAUSE_MILLISECONDS, error)])
  const { code } = cause as { code?: unknown }
  return typeof code === 'number' && code > 0 ? getSystemErrorName(-code) : 'unknown'
}

function rangeOf(prefix: string): { start: Buffer; end: Buffer } {
  return { start: Buffer.from(prefix), end: Buffer.from(`${prefix}\x7f`) }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
