// Where a server keeps what must survive it: a small ordered map from text keys to bytes, with atomic durable transactions.
// database/ knows what the keys mean. Every storage must pass testing/storage.ts.

import { OperatorError } from '../base/errors.js'

/** The bytes of LMDB's pages, and of what it puts before a value that has pages of its own. */
export const PAGE_BYTES = 4096
const PAGE_HEADER_BYTES = 24

/** The length of a value that fills so many pages. Values of other lengths leave room unused. */
export function wholePages(pages: number): number {
  return pages * PAGE_BYTES - PAGE_HEADER_BYTES
}

/** Reads and writes of one transaction. It may read what it wrote, and the keys that were named for it. */
export interface Transaction {
  get(key: string): Uint8Array | undefined
  /** `value` must not change before the transaction has ended */
  put(key: string, value: Uint8Array): void
  remove(key: string): void
}

/** A transaction is not on disk, which is full, read-only, broken or away. Later transactions may succeed. */
export class StorageError extends OperatorError {
  override readonly name = 'StorageError'
  /** the system's name of it, such as ENOSPC or EIO */
  readonly code: string
  /** 'away': the storage is another program, which does not answer or refuses */
  readonly kind: 'disk' | 'away'

  constructor(
    code: string,
    message = `the store cannot be written (${code}; is its disk full or read-only?)`,
    kind: StorageError['kind'] = 'disk',
  ) {
    super(message)
    this.code = code
    this.kind = kind
  }
}

/** A database that several processes share. What they decide together, a statement there decides. */
export interface Engine {
  /** the schema of its tables, quoted */
  readonly schema: string
  /** of this process: while it is connected, it has the advisory lock of `keyhush process` and this */
  readonly id: string
  /** another process has taken this writer's place */
  readonly usurped: boolean
  /** Resolves to the rows when what it wrote is on disk. Rejects with StorageError. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  /** Runs `work` on the storage as it is now, whatever is written meanwhile. */
  snapshot<T>(work: (storage: Storage) => Promise<T>): Promise<T>
  /** Sends a message to the connected processes. It may be lost. */
  notify(message: string): void
  /** Calls `listener` with each message, and with '' whenever messages may have been missed. Returns unsubscribe. */
  listen(listener: (message: string) => void): () => void
}

/** Keys are 1 to 200 ASCII characters and are ordered by them. Values are at most 2^31 - 1 bytes. */
export interface Storage {
  /** the file to name when something stored is wrong */
  readonly location: string
  /** why the latest transaction was not written, for people; undefined: it was */
  readonly failure: string | undefined
  /** of a storage that several processes share; undefined: one process at a time has it */
  readonly engine?: Engine | undefined
  /** the bytes are the caller's to keep */
  get(key: string): Promise<Uint8Array | undefined>
  /** entries whose key begins with `prefix`, ascending, from behind the key `after`; nothing may be written meanwhile */
  entries(prefix: string, after?: string): AsyncIterable<readonly [string, Uint8Array]>
  /** how many there are */
  count(prefix: string): Promise<number>
  /**
   * Runs the synchronous `work` alone, and resolves to its result when all that it wrote is on disk. It may read `keys`. Rejects with
   * what `work` throws, or with a StorageError; then nothing has changed.
   */
  transact<T>(keys: readonly string[], work: (transaction: Transaction) => T): Promise<T>
  /** after the transactions under way; nothing may be called afterwards */
  close(): Promise<void>
}

/** A transaction's writes, kept back until its work is done. */
export class Draft implements Transaction {
  /** undefined: removed */
  readonly writes = new Map<string, Uint8Array | undefined>()
  readonly #keys: ReadonlySet<string>
  readonly #read: (key: string) => Uint8Array | undefined

  /** `read` is asked for `keys` alone. */
  constructor(keys: readonly string[], read: (key: string) => Uint8Array | undefined) {
    this.#keys = new Set(keys)
    this.#read = read
  }

  get(key: string): Uint8Array | undefined {
    if (this.writes.has(key)) return this.writes.get(key)
    if (!this.#keys.has(key))
      throw new Error(`expected only keys that were named for the transaction, got ${key}; name it`)
    return this.#read(key)
  }

  put(key: string, value: Uint8Array): void {
    this.writes.set(key, value)
  }

  remove(key: string): void {
    this.writes.set(key, undefined)
  }
}
