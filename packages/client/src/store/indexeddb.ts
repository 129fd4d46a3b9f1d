// State in a browser: one IndexedDB database an origin, shared by its tabs.
//
//   heads    identity                        → the head's row (head.ts)
//   values   [identity, hint, kind, version] → bytes: checkpoint, manifest and directory of the checkpoint's version;
//                                              of a half-made hint partial and directory, at version 0;
//                                              of a whole one what verifies its answers, if anything is kept, at version 0.
//                                              Of one that is longer than a row, what follows is at [‥, version, 1], …
//                                              Rows of the state itself: kind `row` and its name, at version 0
//   journal  [identity, hint, version]       → the effect or update that leads from `version` to the next: bytes
//   keys     identity                        → the sealing key, a CryptoKey that cannot be exported
//
// Identity is the servers. All of one hint's rows carry its id, so that nothing of one hint is read as another's.
//
// Every method is one transaction: it reads the head, asks rules.ts, writes. Nothing but requests to the database is
// awaited in between, so it is atomic, and transactions on the same rows run one after another, whichever tabs they come
// from (S4).
//
// Durability. What a server may come to see rests on a *strict* transaction: flushed to the disk before its promise
// resolves. *Relaxed* ones can be lost to a power failure (not to a crashed or killed browser). These may:
//
//   commit          the pending batch and its version are back. It is sent again, the same bytes; the same answers have
//                   the same effect. No later batch can have been sent: putting that one flushed the commit before it.
//   advance         the epoch before is back, with the batch as it was then. The update is applied again; the batch gets
//                   another extension, and none was ever sent: before it is, putPending stores it again, strictly, and
//                   flushes the advance with it.
//   putPartial      the partitions folded since are downloaded again.
//   updatePartial   the half-made hint is at the epoch before, and is updated again.
//   putRow          no checkpoint names it that has not been lost with it: transactions are lost from the last one on.
//   sweepRows       they are there again, and are swept up again.
//   putCheckpoint   the old checkpoint is back, and with it, in the same transaction, the journal that follows it.
//   putVerifier     what verifies answers is fetched again.
//
// Should an engine lose an earlier transaction and keep a later one, entries are missing from the journal, which is
// counted whenever it is read, or a half-made hint is not of its head's manifest: unreadable, and the offline phase runs
// again (S3).

import { toHex } from '@keyhush/protocol'
import { type DBSchema, type IDBPDatabase, type IDBPTransaction, openDB } from 'idb'
import { fromRow, isBytes, isSameHead, toRow } from './head.js'
import * as rules from './rules.js'
import { newSealingKey, SealedStore } from './sealed.js'
import {
  type Advance,
  type DurableStore,
  type HintRecord,
  hasIndexedDb,
  type PartialUpdate,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
  StoreFullError,
  StoreUnavailableError,
} from './store.js'

const DATABASE = 'keyhush'
const SCHEMA_VERSION = 1

/** How long opening may take. A frozen tab that keeps its connection can hold up every later one for ever. */
const OPENING_MS = 3_000

/** Of each row of a value but its last, which is shorter. Handing one over, or back, takes the page some milliseconds. */
const ROW_BYTES = 2 << 20

type Kind = 'partial' | 'checkpoint' | 'manifest' | 'directory' | 'verifier' | `${typeof ROW}${string}`

/** Before the name of a row of the state. */
const ROW = 'row '
const AFTER_ROWS = 'row!'

type ValueKey = [identity: string, hint: string, kind: Kind, version: number]

// Values are unknown: what is stored is checked before it is used.
interface Schema extends DBSchema {
  heads: { key: string; value: unknown }
  values: { key: ValueKey | [...ValueKey, row: number]; value: unknown }
  journal: { key: [identity: string, hint: string, version: number]; value: unknown }
  keys: { key: string; value: unknown }
}

type Database = IDBPDatabase<Schema>
const STORES = ['heads', 'values', 'journal', 'keys'] as const
type Reading = IDBPTransaction<Schema, typeof STORES, 'readonly'>
type Writing = IDBPTransaction<Schema, typeof STORES, 'readwrite'>
type WritingHead = IDBPTransaction<Schema, ['heads'], 'readwrite'>

/** What reading a head takes of a transaction, and writing one. */
interface ToRead {
  objectStore(name: 'heads'): { get(key: string): Promise<unknown> }
}
interface ToWrite {
  objectStore(name: 'heads'): { put(value: unknown, key: string): Promise<unknown> }
}

/**
 * The state of a pair of servers, in this origin's IndexedDB. `pause` gives the page its thread back. Throws
 * StoreUnavailableError, StoreFullError.
 */
export async function openIndexedDbStore(
  servers: readonly string[],
  pause?: () => Promise<void>,
): Promise<DurableStore> {
  if (!hasIndexedDb()) {
    throw new StoreUnavailableError('there is no IndexedDB here; Node has fileStore(folder), of @keyhush/client/node')
  }
  const store = new IndexedDbStore([...servers].sort().join(' '))
  try {
    const [durability, sealed] = await Promise.all([store.confirmDurability(), store.canSeal()])
    return {
      store: sealed ? new SealedStore(store, () => store.sealingKey(), pause) : store,
      sealed,
      durability,
      discardOthers: () => store.discardOthers(),
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

export class IndexedDbStore implements StateStore {
  readonly durable = true
  readonly #identity: string
  #closed = false
  /** what was written last, or was to be: a guess at what there is */
  #known: rules.StoredHead | undefined
  // Both are made anew when the connection is lost.
  #connection: Promise<Database> | undefined
  #key: Promise<CryptoKey> | undefined

  /** `identity`: the servers' names in ascending order, a space between two. They are URLs and have none. */
  constructor(identity: string) {
    this.#identity = identity
  }

  /** Browsers have let a page ask for strict durability since Chromium 83, Safari 15 and Firefox 126. */
  async confirmDurability(): Promise<DurableStore['durability']> {
    return await this.#write('strict', async tx => (tx.durability === 'strict' ? 'strict' : 'unconfirmed'))
  }

  /** Not on insecure origins, which have no WebCrypto, nor where a browser refuses to keep keys (some private windows). */
  async canSeal(): Promise<boolean> {
    if (globalThis.crypto?.subtle === undefined) return false
    try {
      await this.sealingKey()
      return true
    } catch (error) {
      if (error instanceof Error && isDomException(error.cause, 'DataCloneError')) return false
      throw error
    }
  }

  /** The identity's key; made if there is none, or one that does not work: then what it sealed is unreadable. */
  sealingKey(): Promise<CryptoKey> {
    this.#key ??= this.#obtainKey().catch((error: unknown) => {
      this.#key = undefined
      throw error
    })
    return this.#key
  }

  async #obtainKey(): Promise<CryptoKey> {
    const fresh = await newSealingKey() // before the transaction, in case it is needed
    return await this.#write('strict', async tx => {
      const keys = tx.objectStore('keys')
      const kept = await keys.get(this.#identity)
      if (kept instanceof CryptoKey) return kept
      queue([keys.put(fresh, this.#identity)])
      return fresh
    })
  }

  async read(): Promise<StateHead | undefined> {
    return await this.#read(tx => this.#head(tx))
  }

  async readPartial(hintId: Uint8Array): Promise<StoredPartial> {
    return await this.#read(async tx => {
      const { version } = rules.usable(await this.#head(tx), hintId, 'partial')
      return {
        version,
        partial: await this.#value(tx, hintId, 'partial', 0),
        directory: await this.#value(tx, hintId, 'directory', 0),
      }
    })
  }

  async readHint(hintId: Uint8Array): Promise<StoredHint> {
    return await this.#read(async tx => {
      const head = rules.usable(await this.#head(tx), hintId, 'whole')
      const version = head.checkpointVersion
      const [checkpoint, manifest, directory, entries, rows] = await Promise.all([
        this.#value(tx, hintId, 'checkpoint', version),
        this.#value(tx, hintId, 'manifest', version),
        this.#value(tx, hintId, 'directory', version),
        this.#entries(tx, head, version),
        this.#rows(tx, hintId),
      ])
      return { version, checkpoint, manifest, directory, entries, rows: [...rows] }
    })
  }

  async readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    return await this.#read(async tx => {
      const head = rules.reaching(await this.#head(tx), hintId, from)
      return from < head.checkpointVersion ? undefined : await this.#entries(tx, head, from)
    })
  }

  async begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows: readonly string[] = [],
  ): Promise<void> {
    await this.#write('strict', async tx => {
      const head = rules.begun(await this.#replaceable(tx, replaces), record, replaces)
      rules.assertRowsLeft(rows, await this.#rows(tx, record.hintId))
      queue(this.#erase(tx, record.hintId))
      await this.#putValue(tx, record.hintId, 'partial', 0, partial)
      await this.#putValue(tx, record.hintId, 'directory', 0, directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    await this.#write('relaxed', async tx => {
      rules.halfMade(await this.#head(tx), hintId, version)
      await this.#putValue(tx, hintId, 'partial', 0, partial)
    })
  }

  async updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void> {
    await this.#write('relaxed', async tx => {
      const head = rules.updated(await this.#head(tx), hintId, version, update)
      await this.#putValue(tx, hintId, 'partial', 0, update.partial)
      await this.#putValue(tx, hintId, 'directory', 0, update.directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async complete(
    hintId: Uint8Array,
    version: number,
    checkpoint: Uint8Array,
    rows: readonly string[] = [],
  ): Promise<void> {
    await this.#write('strict', async tx => {
      const head = rules.completed(await this.#head(tx), hintId, version)
      await this.#keepRows(tx, hintId, rows)
      const directory = await this.#value(tx, hintId, 'directory', 0)
      queue((['partial', 'directory'] as const).map(kind => this.#deleteValue(tx, hintId, kind, 0)))
      await this.#putValue(tx, hintId, 'checkpoint', version, checkpoint)
      await this.#putValue(tx, hintId, 'manifest', version, head.record.manifest)
      await this.#putValue(tx, hintId, 'directory', version, directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    // The same bytes again are written again: whoever put them first may not have lived to see them flushed.
    await this.#writeHead(async tx => {
      // A lookup waits for this. What the head is likely to become is written behind the read, which spares a turn; what the
      // read has found decides. If it is another, it is written over that, or refused, and then nothing has changed.
      const likely = this.#known && attempt(() => rules.withPending(this.#known, hintId, version, pending))
      const reading = this.#head(tx)
      if (likely !== undefined) queue([this.#putHead(tx, likely)])
      const head = rules.withPending(await reading, hintId, version, pending)
      if (likely === undefined || !isSameHead(head, likely)) queue([this.#putHead(tx, head)])
    })
  }

  async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    return await this.#write('relaxed', async tx => {
      const head = rules.committed(await this.#head(tx), hintId, version, effect.length)
      return this.#append(tx, head, effect)
    })
  }

  async advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ journalBytes: number }> {
    return await this.#write('relaxed', async tx => {
      const head = rules.advanced(await this.#head(tx), hintId, version, update)
      return this.#append(tx, head, update.entry)
    })
  }

  async putCheckpoint(
    hintId: Uint8Array,
    version: number,
    checkpoint: StoredCheckpoint,
    rows: readonly string[] = [],
  ): Promise<void> {
    await this.#write('relaxed', async tx => {
      const before = await this.#head(tx)
      const head = rules.checkpointed(before, hintId, version, checkpoint.manifest)
      const journalBytes = rules.totalBytes(await this.#entries(tx, head, version))
      await this.#keepRows(tx, hintId, rows)
      const hint = [this.#identity, toHex(hintId)]
      for (const kind of ['checkpoint', 'manifest', 'directory'] as const) {
        queue([this.#deleteValue(tx, hintId, kind, before!.checkpointVersion)])
        await this.#putValue(tx, hintId, kind, version, checkpoint[kind])
      }
      queue([
        tx.objectStore('journal').delete(IDBKeyRange.bound(hint, [...hint, version], false, true)),
        this.#putHead(tx, { ...head, journalBytes }),
      ])
    })
  }

  async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    await this.#write('relaxed', tx => this.#putValue(tx, hintId, `${ROW}${name}`, 0, row))
  }

  async sweepRows(of?: Uint8Array): Promise<void> {
    await this.#write('relaxed', async tx => {
      const stored = (await this.#head(tx))?.record.hintId
      if (of === undefined) queue(this.#eraseValues(tx, stored))
      else if (stored === undefined || toHex(of) !== toHex(stored)) queue([this.#eraseValuesOf(tx, of)])
    })
  }

  async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    return await this.#read(async tx => {
      const head = rules.usable(await this.#head(tx), hintId, 'whole')
      const kind = `${ROW}${name}` as const
      if ((await tx.objectStore('values').getKey(this.#valueKey(hintId, kind, 0))) === undefined) {
        throw rules.missingRow(head, since)
      }
      return await this.#value(tx, hintId, kind, 0)
    })
  }

  async putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void> {
    await this.#write('relaxed', async tx => {
      rules.usable(await this.#head(tx), hintId, 'whole')
      await this.#putValue(tx, hintId, 'verifier', 0, verifier)
    })
  }

  async readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined> {
    return await this.#read(async tx => {
      rules.usable(await this.#head(tx), hintId, 'whole')
      return await rules.unlessTorn(this.#value(tx, hintId, 'verifier', 0))
    })
  }

  async condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    await this.#write('strict', async tx => {
      const head = rules.condemned(await this.#head(tx), hintId, culprit)
      if (head !== undefined) queue([...this.#eraseHint(tx, hintId), this.#putHead(tx, head)])
    })
  }

  async discard(hintId: Uint8Array | undefined): Promise<void> {
    await this.#write('strict', async tx => {
      rules.assertDiscardable(await this.#replaceable(tx, hintId), hintId)
      queue(hintId === undefined ? this.#erase(tx) : this.#eraseHint(tx, hintId))
    })
  }

  async erase(): Promise<void> {
    await this.#write('strict', async tx => queue(this.#erase(tx)))
  }

  /** See DurableStore. */
  async discardOthers(): Promise<boolean> {
    const ours = this.#identity.split(' ')
    return await this.#write('strict', async tx => {
      let found = false
      for (const identity of await tx.objectStore('heads').getAllKeys()) {
        if (identity === this.#identity || !identity.split(' ').some(server => ours.includes(server))) continue
        const other = new IndexedDbStore(identity)
        const isToStay = await other.#replaceable(tx, undefined).then(
          head => head?.condemned !== undefined,
          () => true, // a newer release's
        )
        if (isToStay) continue
        queue([...other.#erase(tx), tx.objectStore('keys').delete(identity)])
        found = true
      }
      return found
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    const database = await this.#connection?.catch(() => undefined)
    database?.close()
  }

  async #head(tx: ToRead): Promise<rules.StoredHead | undefined> {
    const row = await tx.objectStore('heads').get(this.#identity)
    return row === undefined ? undefined : fromRow(row)
  }

  /** The head, where one that cannot be read counts as none if `hintId` is undefined. */
  async #replaceable(tx: Writing, hintId: Uint8Array | undefined): Promise<rules.StoredHead | undefined> {
    return await this.#head(tx).catch((error: unknown) => {
      if (error instanceof StateUnreadableError && hintId === undefined) return undefined
      throw error
    })
  }

  #putHead(tx: ToWrite, head: rules.StoredHead): Promise<unknown> {
    this.#known = head
    return tx.objectStore('heads').put(toRow(head), this.#identity)
  }

  /** The journal's next entry, which leads to `head`. */
  #append(tx: Writing, head: rules.StoredHead, entry: Uint8Array): { journalBytes: number } {
    const { record, version, journalBytes } = head
    queue([
      tx.objectStore('journal').put(entry, [this.#identity, toHex(record.hintId), version - 1]),
      this.#putHead(tx, head),
    ])
    return { journalBytes }
  }

  /** Removes everything of this identity but its key, and what is there of a hint that begins. */
  #erase(tx: Writing, beginning?: Uint8Array): Promise<unknown>[] {
    return [
      tx.objectStore('heads').delete(this.#identity),
      ...this.#eraseValues(tx, beginning),
      tx.objectStore('journal').delete(IDBKeyRange.bound([this.#identity], [this.#identity, []])),
    ]
  }

  /** Of all hints but this one. */
  #eraseValues(tx: Writing, hintId: Uint8Array | undefined): Promise<unknown>[] {
    const [first, end] = [[this.#identity], [this.#identity, []]] // an array sorts after every string
    const own = hintId && [this.#identity, toHex(hintId)]
    const others = own
      ? [IDBKeyRange.bound(first, own), IDBKeyRange.bound([...own, []], end)]
      : [IDBKeyRange.bound(first, end)]
    return others.map(range => tx.objectStore('values').delete(range))
  }

  #eraseValuesOf(tx: Writing, hintId: Uint8Array): Promise<unknown> {
    const own = [this.#identity, toHex(hintId)]
    return tx.objectStore('values').delete(IDBKeyRange.bound(own, [...own, []]))
  }

  /** The same of a hint, which is the stored one; of others that are prepared beside it, rows stay. */
  #eraseHint(tx: Writing, hintId: Uint8Array): Promise<unknown>[] {
    const own = [this.#identity, toHex(hintId)]
    const range = IDBKeyRange.bound(own, [...own, []])
    return [
      tx.objectStore('heads').delete(this.#identity),
      this.#eraseValuesOf(tx, hintId),
      tx.objectStore('journal').delete(range),
    ]
  }

  /** The names of a hint's rows. */
  async #rows(tx: Reading | Writing, hintId: Uint8Array): Promise<Set<string>> {
    const hint = [this.#identity, toHex(hintId)]
    const keys = await tx.objectStore('values').getAllKeys(IDBKeyRange.bound([...hint, ROW], [...hint, AFTER_ROWS]))
    return new Set(keys.map(([, , kind]) => kind.slice(ROW.length)))
  }

  /** Those rows of a hint that are not among these go. */
  async #keepRows(tx: Writing, hintId: Uint8Array, names: readonly string[]): Promise<void> {
    const there = await this.#rows(tx, hintId)
    rules.assertRows(names, there)
    for (const name of names) there.delete(name)
    for (const name of there) queue([this.#deleteValue(tx, hintId, `${ROW}${name}`, 0)])
  }

  #valueKey(hintId: Uint8Array, kind: Kind, version: number): ValueKey {
    return [this.#identity, toHex(hintId), kind, version]
  }

  /** In place of the one there is. Its rows are handed over one after the other, the thread given back in between. */
  async #putValue(tx: Writing, hintId: Uint8Array, kind: Kind, version: number, value: Uint8Array): Promise<void> {
    const values = tx.objectStore('values')
    const key = this.#valueKey(hintId, kind, version)
    queue([values.delete(rowsAfter(key))])
    let start = 0
    for (; value.length - start >= ROW_BYTES; start += ROW_BYTES) {
      await values.put(value.slice(start, start + ROW_BYTES), rowKey(key, start / ROW_BYTES))
    }
    queue([values.put(start === 0 ? value : value.slice(start), rowKey(key, start / ROW_BYTES))])
  }

  #deleteValue(tx: Writing, hintId: Uint8Array, kind: Kind, version: number): Promise<void> {
    const key = this.#valueKey(hintId, kind, version)
    return tx.objectStore('values').delete(IDBKeyRange.bound(key, [...key, []]))
  }

  async #value(tx: Reading | Writing, hintId: Uint8Array, kind: Kind, version: number): Promise<Uint8Array> {
    const values = tx.objectStore('values')
    const key = this.#valueKey(hintId, kind, version)
    const torn = () => new StateUnreadableError(`the stored ${kind} is missing or torn`)
    const first = await values.get(key)
    if (!isBytes(first)) throw torn()
    if (first.length < ROW_BYTES) return first
    const more = await values.count(rowsAfter(key))
    const value = new Uint8Array((1 + more) * ROW_BYTES)
    let length = 0
    const take = (row: unknown, number: number) => {
      if (!isBytes(row) || row.length > ROW_BYTES || row.length < ROW_BYTES !== (number === more)) throw torn()
      value.set(row, number * ROW_BYTES)
      length += row.length
    }
    take(first, 0)
    const rows = Array.from({ length: more }, async (_, i) => take(await values.get(rowKey(key, 1 + i)), 1 + i))
    await Promise.all(rows)
    return value.subarray(0, length)
  }

  /** All entries from version `from` on: as many as lead to the head's version, or the state is unreadable. */
  async #entries(tx: Reading | Writing, head: rules.StoredHead, from: number): Promise<Uint8Array[]> {
    const hint = [this.#identity, toHex(head.record.hintId)]
    const entries = await tx.objectStore('journal').getAll(IDBKeyRange.bound([...hint, from], [...hint, []]))
    if (entries.length !== head.version - from || !entries.every(isBytes)) {
      throw new StateUnreadableError('entries are missing from the stored journal')
    }
    return entries
  }

  async #read<T>(work: (tx: Reading) => Promise<T>): Promise<T> {
    const database = await this.#connect()
    return await run(() => database.transaction(STORES, 'readonly'), work)
  }

  async #write<T>(durability: 'strict' | 'relaxed', work: (tx: Writing) => Promise<T>): Promise<T> {
    const database = await this.#connect()
    return await run(() => database.transaction(STORES, 'readwrite', { durability }), work)
  }

  /** A strict transaction on heads alone, which begins and ends a little sooner. */
  async #writeHead<T>(work: (tx: WritingHead) => Promise<T>): Promise<T> {
    const database = await this.#connect()
    return await run(() => database.transaction(['heads'], 'readwrite', { durability: 'strict' }), work)
  }

  async #connect(): Promise<Database> {
    if (this.#closed) throw new StoreUnavailableError('this store is closed')
    if (this.#connection === undefined) {
      const lost = () => {
        if (this.#connection !== connection) return
        this.#connection = undefined
        this.#key = undefined
      }
      const connection = connect(lost)
      this.#connection = connection
      connection.catch(lost)
    }
    return await this.#connection
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
      clearTimeout(timer)
      refused = true
      reject(asStoreError(reason))
    }
    const timer = setTimeout(() => {
      const what = `expected IndexedDB to open within ${OPENING_MS / 1000} s; it has not answered`
      giveUp(new StoreUnavailableError(`${what}. Another tab may be frozen: close other tabs of this site`))
    }, OPENING_MS)
    const opening = Promise.resolve().then(() =>
      openDB<Schema>(DATABASE, SCHEMA_VERSION, {
        upgrade(database, oldVersion) {
          // Version 1: the four stores.
          if (oldVersion < 1) for (const name of STORES) database.createObjectStore(name)
        },
        // A tab that does not let go of an older version. Ours all do, see `blocking`.
        blocked() {
          giveUp(new StoreUnavailableError('another tab keeps an older version of the state open; close it'))
        },
        // Another tab wants to delete the database, or to bring it to a newer version. It must not wait for this one.
        blocking(_current, _wanted, event) {
          ;(event.target as IDBDatabase).close()
          lost()
        },
        // The browser has broken the connection off: site data cleared, a disk that failed.
        terminated: lost,
      }),
    )
    opening.then(database => {
      clearTimeout(timer)
      if (refused) database.close()
      else resolve(database)
    }, giveUp)
  })
}

/** Runs `work` in a transaction and waits until that is complete. Any failure aborts it whole. */
async function run<T, Tx extends Reading | Writing | WritingHead>(
  begin: () => Tx,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  let tx: Tx | undefined
  let ended: Promise<unknown> | undefined
  try {
    tx = begin()
    ended = tx.done.catch((error: unknown) => error ?? new StoreUnavailableError('a transaction failed'))
    const result = await work(tx)
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
    throw asStoreError(reason)
  }
}

/** The key of a value's row: the first has the value's own. */
function rowKey(key: ValueKey, row: number): Schema['values']['key'] {
  return row === 0 ? key : [...key, row]
}

/** All rows of a value but its first. */
function rowsAfter(key: ValueKey): IDBKeyRange {
  return IDBKeyRange.bound([...key, 1], [...key, []])
}

/**
 * Leaves writes to their transaction, which fails as a whole if one of them does, and is waited for. Waiting for each of
 * them would cost a turn.
 */
function queue(writes: readonly Promise<unknown>[]): void {
  for (const write of writes) write.catch(() => {})
}

/** What `guess` returns; undefined if it throws. */
function attempt<T>(guess: () => T): T | undefined {
  try {
    return guess()
  } catch {
    return undefined
  }
}

/** Says that no more requests follow, which spares a turn. One that has ended by itself has nothing left to say. */
function commit(tx: Reading | Writing | WritingHead): void {
  try {
    tx.commit?.()
  } catch {}
}

function asStoreError(error: unknown): Error {
  const known = [StateMovedError, StateUnreadableError, StoreUnavailableError, StoreFullError]
  if (known.some(type => error instanceof type)) return error as Error
  if (isDomException(error, 'QuotaExceededError')) {
    return new StoreFullError('the state does not fit into what the browser grants this origin', { cause: error })
  }
  // A row whose file is gone or cannot be decoded.
  if (isDomException(error, 'NotReadableError', 'DataError')) {
    return new StateUnreadableError('a stored row cannot be read', { cause: error })
  }
  if (isDomException(error, 'VersionError')) {
    return new StoreUnavailableError('a newer version of this software has used this database; reload', {
      cause: error,
    })
  }
  return new StoreUnavailableError('IndexedDB is refused or has failed', { cause: error })
}

/** By name: what a QuotaExceededError is an instance of differs between browsers. */
function isDomException(error: unknown, ...names: string[]): boolean {
  return names.includes((error as Error | undefined)?.name ?? '')
}
