// The connection to the database, transactions on it, and what their failures are called.

import { openDB } from 'idb'
import { StateMovedError, StateUnreadableError, StoreFullError, StoreUnavailableError } from '../store.js'
import {
  DATABASE,
  type Database,
  type Reading,
  SCHEMA_VERSION,
  type Schema,
  STORES,
  type Writing,
  type WritingHead,
} from './schema.js'

/** How long opening may take. A frozen tab that keeps its connection can hold up every later one for ever. */
const OPENING_SECONDS = 3

/**
 * The pauses before a failed transaction is made once more, on a new connection. Browsers say late, or not at all, that one is lost; and
 * while they delete a database, they do not open it.
 */
const PAUSES_MS = [500, 1000, 2000]

/**
 * How long a transaction may wait for its turn. A page that stands still within one, for example because it shows alert(), holds up
 * those of all other pages: in Chromium for a minute, in Firefox for ever.
 */
const TURN_SECONDS = 10

/** Runs `late` after so many seconds; those in which the page is frozen, or the device sleeps, do not count. Returns what ends that. */
function unlessIn(seconds: number, late: () => void): () => void {
  let left = seconds
  const timer = setInterval(() => {
    if (--left === 0) late()
  }, 1000)
  return () => clearInterval(timer)
}

/** The database itself has failed; what is asked of it may be asked again. */
class DatabaseError extends StoreUnavailableError {}

/** A connection that is opened when it is needed, and again when it was lost. `lost` is called then. */
export class DatabaseConnection {
  readonly #lost: () => void
  #closed = false
  #database: Promise<Database> | undefined

  constructor(lost: () => void) {
    this.#lost = lost
  }

  read<T>(work: (tx: Reading) => Promise<T>): Promise<T> {
    return this.#run(database => database.transaction(STORES, 'readonly'), work)
  }

  write<T>(durability: 'strict' | 'relaxed', work: (tx: Writing) => Promise<T>): Promise<T> {
    return this.#run(database => database.transaction(STORES, 'readwrite', { durability }), work)
  }

  /** A strict transaction on heads alone, which begins and ends a little sooner. */
  writeHead<T>(work: (tx: WritingHead) => Promise<T>): Promise<T> {
    return this.#run(database => database.transaction(['heads'], 'readwrite', { durability: 'strict' }), work)
  }

  /** Again if the connection is lost meanwhile, as when site data is cleared. What was written then is refused a second time. */
  async #run<T, Tx extends Reading | Writing | WritingHead>(
    begin: (database: Database) => Tx,
    work: (tx: Tx) => Promise<T>,
  ): Promise<T> {
    await this.#open()
    for (let failures = 0; ; failures++) {
      const opening = this.#database
      try {
        const database = await this.#open()
        return await run(() => begin(database), work)
      } catch (error) {
        const pause = PAUSES_MS[failures]
        const isLost = error instanceof DatabaseError || this.#database !== opening
        if (pause === undefined || !isLost || !(error instanceof StoreUnavailableError)) throw error
        await new Promise<void>(resolve => setTimeout(resolve, pause))
        if (opening !== undefined) this.#leave(opening)
      }
    }
  }

  /** The next transaction opens a new connection. */
  #leave(opening: Promise<Database>): void {
    if (this.#database !== opening) return
    this.#database = undefined
    this.#lost()
    void opening.then(
      database => database.close(),
      () => {},
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    const database = await this.#database?.catch(() => undefined)
    database?.close()
  }

  async #open(): Promise<Database> {
    if (this.#closed) throw new StoreUnavailableError('this store is closed')
    if (this.#database === undefined) {
      const lost = () => this.#leave(opening)
      const opening = connect(lost)
      this.#database = opening
      opening.catch(lost)
    }
    return await this.#database
  }
}

/**
 * Opens the database. `lost` is called when the connection has ended for a reason other than `close()`. The next call
 * connects anew; if the database was deleted, it finds no state.
 */
function connect(lost: () => void): Promise<Database> {
  return new Promise((resolve, reject) => {
    let refused = false
    const giveUp = (reason: unknown) => {
      answered()
      refused = true
      void asStoreError(reason).then(reject)
    }
    const answered = unlessIn(OPENING_SECONDS, () => giveUp(heldUp(OPENING_SECONDS)))
    const opening = Promise.resolve().then(() =>
      openDB<Schema>(DATABASE, SCHEMA_VERSION, {
        upgrade(database) {
          const there = database.objectStoreNames
          for (const name of STORES) if (!there.contains(name)) database.createObjectStore(name)
        },
        // A tab that keeps an older version open. Ours all close it, see `blocking`.
        blocked() {
          giveUp(new StoreUnavailableError('another tab keeps an older version of the state open; close it'))
        },
        // Another tab wants to delete or upgrade the database. It must not wait for this one.
        blocking: lost,
        // The browser has closed the connection: site data was cleared, or a disk failed.
        terminated: lost,
      }),
    )
    opening.then(database => {
      const missing = STORES.filter(name => !database.objectStoreNames.contains(name))
      if (missing.length > 0) {
        const what = `the IndexedDB database '${DATABASE}' of this origin has no ${missing.join(', ')}`
        giveUp(new StoreUnavailableError(`${what}: other code made it. Delete it, or rename it in that code`))
      }
      answered()
      if (refused) database.close()
      else resolve(database)
    }, giveUp)
  })
}

function heldUp(seconds: number): StoreUnavailableError {
  const expected = `expected IndexedDB to answer within ${seconds} s`
  return new StoreUnavailableError(`${expected}. Another tab may be frozen: close it`)
}

/** Rejects if the transaction does not begin in time. */
function begun(tx: { objectStore(name: 'heads'): { get(key: string): Promise<unknown> } }): Promise<void> {
  return new Promise((resolve, reject) => {
    const answered = unlessIn(TURN_SECONDS, () => reject(heldUp(TURN_SECONDS)))
    const first = tx.objectStore('heads').get('')
    first.then(answered, answered).then(resolve, reject) // one that has failed says why itself
  })
}

/** Runs `work` in a transaction and waits until it is complete. Any failure aborts all of it. */
async function run<T, Tx extends Reading | Writing | WritingHead>(
  begin: () => Tx,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  let tx: Tx | undefined
  let ended: Promise<unknown> | undefined
  try {
    tx = begin()
    ended = tx.done.catch((error: unknown) => error ?? new StoreUnavailableError('a transaction failed'))
    const [result] = await Promise.all([work(tx), begun(tx as Parameters<typeof begun>[0])])
    commit(tx)
    const failure = await ended
    if (failure !== undefined) throw failure
    return result
  } catch (error) {
    try {
      tx?.abort()
    } catch {} // it has ended
    // A request that failed because its transaction was aborted does not know why; the transaction does.
    const reason = isDomException(error, 'AbortError') ? await ended : error
    throw await asStoreError(reason)
  }
}

/** Leaves writes to their transaction, which fails if one of them does. Waiting for each would cost a turn. */
export function queue(writes: readonly Promise<unknown>[]): void {
  for (const write of writes) write.catch(() => {})
}

/** Says that no more requests follow, which saves a turn. It throws if the transaction has ended by itself. */
function commit(tx: Reading | Writing | WritingHead): void {
  try {
    tx.commit?.()
  } catch {}
}

async function asStoreError(error: unknown): Promise<Error> {
  const known = [StateMovedError, StateUnreadableError, StoreUnavailableError, StoreFullError]
  if (known.some(type => error instanceof type)) return error as Error
  if (isDomException(error, 'QuotaExceededError')) {
    return new StoreFullError(`the browser refuses it${await grant()}`, { cause: error })
  }
  // A row whose file is gone or cannot be decoded.
  if (isDomException(error, 'NotReadableError', 'DataError')) {
    return new StateUnreadableError('a stored row cannot be read', { cause: error })
  }
  if (isDomException(error, 'VersionError')) {
    return new StoreUnavailableError('a newer release of the SDK has used this database; reload the page', {
      cause: error,
    })
  }
  const isRefusal = !(error instanceof DOMException) || isDomException(error, 'DataCloneError') // as of keys in some private windows
  return new (isRefusal ? StoreUnavailableError : DatabaseError)('IndexedDB is refused or has failed', { cause: error })
}

/** What the browser says of the site's quota. Some say nothing, and Chromium is too optimistic. */
async function grant(): Promise<string> {
  const { quota, usage } = await (async () => await navigator.storage.estimate())().catch((): StorageEstimate => ({}))
  if (quota === undefined || usage === undefined) return ''
  return `; this site stores ${usage} bytes, and the browser's estimate of what is left is ${Math.max(0, quota - usage)}`
}

/** By name: what a QuotaExceededError is an instance of differs between browsers. */
export function isDomException(error: unknown, ...names: string[]): boolean {
  return names.includes((error as Error | undefined)?.name ?? '')
}
