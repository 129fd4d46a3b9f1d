// Where a server keeps what must survive it: a small ordered map of bytes under text keys, with atomic durable
// transactions. What the keys mean is the business of database/. Every backend is held to testing/storage.ts.

import { OperatorError } from '../base/errors.js'

/** Reads and writes of one transaction. Reads see its own writes, and else the keys that were named for it alone. */
export interface Transaction {
  get(key: string): Uint8Array | undefined
  /** `value` must not change before the transaction has ended */
  put(key: string, value: Uint8Array): void
  remove(key: string): void
}

/** What was to be written is not on disk: it is full, read-only, broken or away. Later transactions may succeed. */
export class StorageError extends OperatorError {
  override readonly name = 'StorageError'
  /** the system's name of it, such as ENOSPC or EIO */
  readonly code: string
  /** 'away': what is asked is another program, which does not answer or refuses */
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

/** What other processes use as well: what is decided between them is decided there, a statement at a time. */
export interface Engine {
  /** what its tables are in, quoted */
  readonly schema: string
  /** this process, among them: as long as it is connected, it has the advisory lock of `keyhush process` and this */
  readonly id: string
  /** another process writes instead of this one, which was to */
  readonly usurped: boolean
  /** Resolves to the rows when what it wrote is on disk. Rejects with StorageError. */
  query<Row>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>
  /** Runs `work` on the storage as it is now, whatever is written meanwhile. */
  snapshot<T>(work: (storage: Storage) => Promise<T>): Promise<T>
  /** Says something to the processes that are there, if it gets through. */
  notify(message: string): void
  /** `listener` is told what they say, and '' whenever something may have been missed. Returns how to end that. */
  listen(listener: (message: string) => void): () => void
}

/** Keys are 1 to 200 ASCII characters and are ordered by them. Values are at most 2^31 - 1 bytes. */
export interface Storage {
  /** the file to name when something stored is wrong */
  readonly location: string
  /** why the latest transaction was not written, for people; undefined: it was */
  readonly failure: string | undefined
  /** where processes have it together; undefined: one at a time has it */
  readonly engine?: Engine | undefined
  /** the bytes are the caller's to keep */
  get(key: string): Promise<Uint8Array | undefined>
  /** all entries whose key begins with `prefix`, ascending, those behind the key `after` alone; nothing may be written meanwhile */
  entries(prefix: string, after?: string): AsyncIterable<readonly [string, Uint8Array]>
  /** how many there are */
  count(prefix: string): Promise<number>
  /**
   * Runs `work`, once, on what no other transaction changes meanwhile, and makes all it wrote durable, or nothing.
   * Resolves to its result when that is on disk; rejects, having changed nothing, with what it throws, or with a
   * StorageError. `work` is synchronous, so that an engine elsewhere can serve as well: `keys` are those it may read.
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
    if (!this.#keys.has(key)) throw new Error(`a transaction reads ${key}, which was not named for it`)
    return this.#read(key)
  }

  put(key: string, value: Uint8Array): void {
    this.writes.set(key, value)
  }

  remove(key: string): void {
    this.writes.set(key, undefined)
  }
}
