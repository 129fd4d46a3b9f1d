// State in a browser, in IndexedDB. indexeddb/schema.ts has the layout.
//
// Every method is one transaction: it reads the head, asks rules.ts, writes. It awaits nothing but requests to the
// database, so it is atomic; transactions on the same rows run one after another, in whichever tab (S4).
//
// Before a server may see anything, a *strict* transaction has flushed it to the disk. A *relaxed* transaction can be
// lost to a power failure, but not to a crashed or killed browser. These are relaxed, and this is what is back then:
//
//   commit          the pending lookup. The same bytes are sent again, and the same answers have the same effect. No later
//                   lookup can have been sent: putting it would have flushed this commit.
//   advance         the epoch before, with its lookup. The update is applied again, and the lookup is extended anew. The
//                   first extension was never sent: putPending stores it strictly before that, and flushes this too.
//   putPartial      fewer partitions; the rest is downloaded again.
//   putRow          nothing. A checkpoint that names the row is lost with it: transactions are lost from the last one on.
//   sweepRows       the rows; they are removed again.
//   putCheckpoint   the old checkpoint and the journal that follows it: both change in one transaction.
//   putVerifier     nothing; it is fetched again.
//
// If an engine loses an earlier transaction and keeps a later one, the journal has too few entries, or a half-made hint is
// not of its head's manifest. Both are noticed when they are read: the state is unreadable and is made anew (S3).

import { toHex } from '@keyhush/protocol'
import { fromRow, isBytes, isSameHead, toRow } from './head.js'
import { isRival } from './identity.js'
import { DatabaseConnection, queue } from './indexeddb/connection.js'
import { SealingKey } from './indexeddb/key.js'
import { type Reading, ROW, startingWith, type Writing } from './indexeddb/schema.js'
import { Values } from './indexeddb/values.js'
import * as rules from './rules.js'
import { SealedStore } from './sealed.js'
import {
  type Advance,
  type DurableStore,
  type HintRecord,
  hasIndexedDb,
  type PartialUpdate,
  type StateHead,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
  StoreUnavailableError,
} from './store.js'

/** What reading a head needs of a transaction, and writing one. */
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
    const [durability, sealed] = await Promise.all([store.confirmDurability(), store.sealingKey.isPossible()])
    return {
      store: sealed ? new SealedStore(store, () => store.sealingKey.get(), pause) : store,
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
  readonly #values: Values
  readonly #connection: DatabaseConnection
  readonly sealingKey: SealingKey
  /** the head that was written last, or should have been: a guess at what is stored */
  #known: rules.StoredHead | undefined

  /** `identity`: its parts, a space between two. They have none. */
  constructor(identity: string) {
    this.#identity = identity
    this.#values = new Values(identity)
    this.#connection = new DatabaseConnection(() => this.sealingKey.forget())
    this.sealingKey = new SealingKey(this.#connection, identity)
  }

  /** Browsers have let a page ask for strict durability since Chromium 83, Safari 15 and Firefox 126. */
  async confirmDurability(): Promise<DurableStore['durability']> {
    return await this.#connection.write('strict', async tx => (tx.durability === 'strict' ? 'strict' : 'unconfirmed'))
  }

  async read(): Promise<StateHead | undefined> {
    return await this.#connection.read(tx => this.#head(tx))
  }

  async readPartial(hintId: Uint8Array): Promise<StoredPartial> {
    return await this.#connection.read(async tx => {
      const { version } = rules.usable(await this.#head(tx), hintId, 'partial')
      return {
        version,
        partial: await this.#values.get(tx, hintId, 'partial', 0),
        directory: await this.#values.get(tx, hintId, 'directory', 0),
      }
    })
  }

  async readHint(hintId: Uint8Array): Promise<StoredHint> {
    return await this.#connection.read(async tx => {
      const head = rules.usable(await this.#head(tx), hintId, 'whole')
      const version = head.checkpointVersion
      const [checkpoint, manifest, directory, entries, rows] = await Promise.all([
        this.#values.get(tx, hintId, 'checkpoint', version),
        this.#values.get(tx, hintId, 'manifest', version),
        this.#values.get(tx, hintId, 'directory', version),
        this.#entries(tx, head, version),
        this.#values.rows(tx, hintId),
      ])
      return { version, checkpoint, manifest, directory, entries, rows: [...rows] }
    })
  }

  async readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    return await this.#connection.read(async tx => {
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
    await this.#connection.write('strict', async tx => {
      const head = rules.begun(await this.#replaceable(tx, replaces), record, replaces)
      rules.assertRowsLeft(rows, await this.#values.rows(tx, record.hintId))
      this.#erase(tx, record.hintId)
      await this.#values.put(tx, record.hintId, 'partial', 0, partial)
      await this.#values.put(tx, record.hintId, 'directory', 0, directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    await this.#connection.write('relaxed', async tx => {
      rules.halfMade(await this.#head(tx), hintId, version)
      await this.#values.put(tx, hintId, 'partial', 0, partial)
    })
  }

  async updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void> {
    await this.#connection.write('strict', async tx => {
      const head = rules.updated(await this.#head(tx), hintId, version, update)
      await this.#values.put(tx, hintId, 'partial', 0, update.partial)
      await this.#values.put(tx, hintId, 'directory', 0, update.directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async complete(
    hintId: Uint8Array,
    version: number,
    checkpoint: Uint8Array,
    rows: readonly string[] = [],
  ): Promise<void> {
    await this.#connection.write('strict', async tx => {
      const head = rules.completed(await this.#head(tx), hintId, version)
      await this.#values.keepRows(tx, hintId, rows)
      const directory = await this.#values.get(tx, hintId, 'directory', 0)
      for (const kind of ['partial', 'directory'] as const) this.#values.delete(tx, hintId, kind, 0)
      await this.#values.put(tx, hintId, 'checkpoint', version, checkpoint)
      await this.#values.put(tx, hintId, 'manifest', version, head.record.manifest)
      await this.#values.put(tx, hintId, 'directory', version, directory)
      queue([this.#putHead(tx, head)])
    })
  }

  async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    // The same bytes are written again: the caller that put them first may have crashed before they were flushed.
    await this.#connection.writeHead(async tx => {
      // A lookup waits for this. The likely new head is queued right behind the read, which saves a turn. If the read finds
      // another head, the right one is written over it, or the transaction is aborted and nothing has changed.
      const likely = this.#known && attempt(() => rules.withPending(this.#known, hintId, version, pending))
      const reading = this.#head(tx)
      if (likely !== undefined) queue([this.#putHead(tx, likely)])
      const head = rules.withPending(await reading, hintId, version, pending)
      if (likely === undefined || !isSameHead(head, likely)) queue([this.#putHead(tx, head)])
    })
  }

  async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    return await this.#connection.write('relaxed', async tx => {
      const head = rules.committed(await this.#head(tx), hintId, version, effect.length)
      return this.#append(tx, head, effect)
    })
  }

  async advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ journalBytes: number }> {
    return await this.#connection.write('relaxed', async tx => {
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
    await this.#connection.write('relaxed', async tx => {
      const before = await this.#head(tx)
      const head = rules.checkpointed(before, hintId, version, checkpoint.manifest)
      const journalBytes = rules.totalBytes(await this.#entries(tx, head, version))
      await this.#values.keepRows(tx, hintId, rows)
      const hint = [this.#identity, toHex(hintId)]
      for (const kind of ['checkpoint', 'manifest', 'directory'] as const) {
        this.#values.delete(tx, hintId, kind, before!.checkpointVersion)
        await this.#values.put(tx, hintId, kind, version, checkpoint[kind])
      }
      queue([
        tx.objectStore('journal').delete(IDBKeyRange.bound(hint, [...hint, version], false, true)),
        this.#putHead(tx, { ...head, journalBytes }),
      ])
    })
  }

  async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    await this.#connection.write('relaxed', tx => this.#values.put(tx, hintId, `${ROW}${name}`, 0, row))
  }

  async sweepRows(of?: Uint8Array): Promise<void> {
    await this.#connection.write('relaxed', async tx => {
      const stored = (await this.#head(tx))?.record.hintId
      if (of === undefined) this.#values.eraseOthers(tx, stored)
      else if (stored === undefined || toHex(of) !== toHex(stored)) this.#values.eraseOf(tx, of)
    })
  }

  async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    return await this.#connection.read(async tx => {
      const head = rules.usable(await this.#head(tx), hintId, 'whole')
      const kind = `${ROW}${name}` as const
      if (!(await this.#values.has(tx, hintId, kind, 0))) throw rules.missingRow(head, since)
      return await this.#values.get(tx, hintId, kind, 0)
    })
  }

  async putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void> {
    await this.#connection.write('relaxed', async tx => {
      rules.usable(await this.#head(tx), hintId, 'whole')
      await this.#values.put(tx, hintId, 'verifier', 0, verifier)
    })
  }

  async readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined> {
    return await this.#connection.read(async tx => {
      rules.usable(await this.#head(tx), hintId, 'whole')
      return await rules.unlessTorn(this.#values.get(tx, hintId, 'verifier', 0))
    })
  }

  async condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    await this.#connection.write('strict', async tx => {
      const head = rules.condemned(await this.#head(tx), hintId, culprit)
      if (head === undefined) return
      this.#eraseHint(tx, hintId)
      queue([this.#putHead(tx, head)])
    })
  }

  async discard(hintId: Uint8Array | undefined): Promise<void> {
    await this.#connection.write('strict', async tx => {
      rules.assertDiscardable(await this.#replaceable(tx, hintId), hintId)
      if (hintId === undefined) this.#erase(tx)
      else this.#eraseHint(tx, hintId)
    })
  }

  async erase(): Promise<void> {
    await this.#connection.write('strict', async tx => this.#erase(tx))
  }

  /** See DurableStore. */
  async discardOthers(): Promise<boolean> {
    const ours = this.#identity.split(' ')
    return await this.#connection.write('strict', async tx => {
      let found = false
      for (const identity of await tx.objectStore('heads').getAllKeys()) {
        if (!isRival(ours, identity.split(' '))) continue
        const other = new IndexedDbStore(identity)
        const isToStay = await other.#replaceable(tx, undefined).then(
          head => head?.condemned !== undefined,
          () => true, // a newer release's state
        )
        if (isToStay) continue
        other.#erase(tx)
        queue([tx.objectStore('keys').delete(identity)])
        found = true
      }
      return found
    })
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #head(tx: ToRead): Promise<rules.StoredHead | undefined> {
    const row = await tx.objectStore('heads').get(this.#identity)
    return row === undefined ? undefined : fromRow(row)
  }

  /** The head. If `hintId` is undefined, an unreadable head counts as none. */
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

  /** Removes everything of this identity but its key and the values of a hint that begins. */
  #erase(tx: Writing, beginning?: Uint8Array): void {
    this.#values.eraseOthers(tx, beginning)
    queue([
      tx.objectStore('heads').delete(this.#identity),
      tx.objectStore('journal').delete(startingWith([this.#identity])),
    ])
  }

  /** Removes the stored hint. Rows of other hints that are prepared beside it stay. */
  #eraseHint(tx: Writing, hintId: Uint8Array): void {
    this.#values.eraseOf(tx, hintId)
    const journal = tx.objectStore('journal')
    queue([
      tx.objectStore('heads').delete(this.#identity),
      journal.delete(startingWith([this.#identity, toHex(hintId)])),
    ])
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
}

/** What `guess` returns; undefined if it throws. */
function attempt<T>(guess: () => T): T | undefined {
  try {
    return guess()
  } catch {
    return undefined
  }
}
