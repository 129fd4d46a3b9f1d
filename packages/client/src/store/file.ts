// State in a folder of files.
//
//   journal                     the head, the entries since the checkpoint, then what happened since (file/journal.ts)
//   <hint>.checkpoint.<version> a checkpoint, its manifest and its directory: a frame each
//   <hint>.row.<name>           a row of a hint, or of one that is prepared beside it: a frame
//   <hint>.partial.<version>    of a half-made hint: one frame; <hint>.directory.<version> likewise
//   <hint>.verifier.0           of a whole one, if anything is kept, what verifies its answers: one frame
//   lock                        empty; locked by who has the folder open (folder.ts)
//
// Everything but an appended frame replaces the journal, in this order:
//   1. Values are written under another name, synced and renamed.
//   2. The new journal is written, synced and renamed. Its rename is the step that counts.
//   3. What the new journal does not need is removed.
// A crash in between leaves the old state or the new one, and files that the next open() removes.
//
// The journal is also kept in memory: this store holds the folder's lock, so nobody else changes it.
//
// Nothing is sealed. Node has no place for a key that a reader of these files could not read too. The files are readable
// by their owner alone (0600); encrypting the disk is left to the operating system.

import { equalBytes } from '@keyhush/protocol'
import { Turns } from '../base/mutex.js'
import type { Disk, OpenFile } from './disk.js'
import { asStoreErrors, Closed } from './file/errors.js'
import { decodeValue, encodeValue, type FileKind, JOURNAL, namesOf, valueName, writeNew } from './file/files.js'
import { decodeJournal, encodeJournal, type State } from './file/journal.js'
import { RowFiles } from './file/rows.js'
import { encodeFrame, type Frame } from './frames.js'
import * as rules from './rules.js'
import {
  type Advance,
  type HintRecord,
  type PartialUpdate,
  type StateHead,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
  StoreUnavailableError,
} from './store.js'

/** What a file is written under until it is whole. */
const NEW = '.new'

export class FileStore implements StateStore {
  readonly durable = true
  readonly #disk: Disk
  readonly #unlock: () => Promise<void>
  readonly #turns = new Turns()
  readonly #rows: RowFiles
  /** undefined: nothing is stored; an error: it cannot be read */
  #state: State | StateUnreadableError | undefined
  /** the journal, open at its end; undefined if there is none, or an unreadable one */
  #journal: OpenFile | undefined
  /** why this store refuses calls: it is closed, or a write has failed half-way */
  #over: Error | undefined

  private constructor(disk: Disk, unlock: () => Promise<void>) {
    this.#disk = disk
    this.#rows = new RowFiles(disk)
    this.#unlock = unlock
  }

  /** Opens the state in a folder that exists. Throws StoreUnavailableError if it is open already. */
  static async open(disk: Disk): Promise<FileStore> {
    const unlock = await asStoreErrors(() => disk.lock())
    if (unlock === undefined) {
      const instead = 'close it there, or give this process a folder of its own'
      throw new StoreUnavailableError(`the state is open already, here or in another process or container; ${instead}`)
    }
    const store = new FileStore(disk, unlock)
    try {
      await asStoreErrors(() => store.#load())
      return store
    } catch (error) {
      await store.close()
      throw error
    }
  }

  read(): Promise<StateHead | undefined> {
    return this.#turn(async () => {
      const head = this.#readable()?.head
      return head && { ...head, pending: head.pending?.slice() }
    })
  }

  readPartial(hintId: Uint8Array): Promise<StoredPartial> {
    return this.#turn(async () => {
      const { version } = rules.usable(this.#readable()?.head, hintId, 'partial')
      const [partial] = await this.#value(hintId, 'partial', version)
      const [directory] = await this.#value(hintId, 'directory', version)
      return { version, partial: partial!, directory: directory! }
    })
  }

  readHint(hintId: Uint8Array): Promise<StoredHint> {
    return this.#turn(async () => {
      const { checkpointVersion: version } = rules.usable(this.#readable()?.head, hintId, 'whole')
      const [checkpoint, manifest, directory] = await this.#value(hintId, 'checkpoint', version)
      const entries = this.#readable()!.entries.map(entry => entry.slice())
      const rows = await this.#rows.names(hintId)
      return { version, checkpoint: checkpoint!, manifest: manifest!, directory: directory!, entries, rows }
    })
  }

  readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    return this.#turn(async () => {
      const { checkpointVersion } = rules.reaching(this.#readable()?.head, hintId, from)
      if (from < checkpointVersion) return undefined
      return this.#readable()!
        .entries.slice(from - checkpointVersion)
        .map(entry => entry.slice())
    })
  }

  begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows: readonly string[] = [],
  ): Promise<void> {
    return this.#turn(async () => {
      const head = rules.begun(this.#replaceable(replaces)?.head, record, replaces)
      rules.assertRowsLeft(rows, new Set(await this.#rows.names(record.hintId)))
      await this.#putValue(record.hintId, 'directory', 0, directory)
      await this.#putValue(record.hintId, 'partial', 0, partial)
      this.#rows.forget()
      await this.#replace({ head, entries: [] })
    })
  }

  putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      rules.halfMade(this.#readable()?.head, hintId, version)
      await this.#disk.sync() // the rows' names, before the partial hint that names them
      await this.#putValue(hintId, 'partial', version, partial)
    })
  }

  updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void> {
    return this.#turn(async () => {
      const head = rules.updated(this.#readable()?.head, hintId, version, update)
      await this.#putValue(hintId, 'directory', head.version, update.directory)
      await this.#putValue(hintId, 'partial', head.version, update.partial)
      await this.#replace({ head, entries: [] })
    })
  }

  complete(hintId: Uint8Array, version: number, checkpoint: Uint8Array, rows: readonly string[] = []): Promise<void> {
    return this.#turn(async () => {
      const head = rules.completed(this.#readable()?.head, hintId, version)
      const unnamed = await this.#rows.filesBut(hintId, rows)
      const [directory] = await this.#value(hintId, 'directory', version)
      await this.#putValue(hintId, 'checkpoint', version, checkpoint, head.record.manifest, directory!)
      await this.#replace({ head, entries: [] }, unnamed)
    })
  }

  putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      const state = this.#readable()
      const head = rules.withPending(state?.head, hintId, version, pending.slice())
      if (state!.head.pending !== undefined) return // the same bytes, which are synced already
      await this.#append({ kind: 'pend', version, payload: pending }, { ...state!, head })
    })
  }

  commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    return this.#turn(async () => {
      const state = this.#readable()
      const head = rules.committed(state?.head, hintId, version, effect.length)
      const entries = [...state!.entries, effect.slice()]
      await this.#append({ kind: 'entr', version, payload: effect }, { head, entries })
      return { journalBytes: head.journalBytes }
    })
  }

  advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ journalBytes: number }> {
    return this.#turn(async () => {
      const state = this.#readable()
      const [entry, pending] = [update.entry.slice(), update.pending?.slice()]
      const head = rules.advanced(state?.head, hintId, version, { ...update, entry, pending })
      await this.#replace({ head, entries: [...state!.entries, entry] })
      return { journalBytes: head.journalBytes }
    })
  }

  putCheckpoint(
    hintId: Uint8Array,
    version: number,
    stored: StoredCheckpoint,
    rows: readonly string[] = [],
  ): Promise<void> {
    return this.#turn(async () => {
      const { checkpoint, manifest, directory } = stored
      const state = this.#readable()
      const head = rules.checkpointed(state?.head, hintId, version, manifest)
      const entries = state!.entries.slice(version - state!.head.checkpointVersion)
      const unnamed = await this.#rows.filesBut(hintId, rows)
      await this.#putValue(hintId, 'checkpoint', version, checkpoint, manifest, directory)
      await this.#replace({ head: { ...head, journalBytes: rules.totalBytes(entries) }, entries }, unnamed)
    })
  }

  putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      const head = this.#replaceable(undefined)?.head
      const isStored = head?.condemned === undefined && head !== undefined && equalBytes(head.record.hintId, hintId)
      await this.#rows.put(hintId, name, row, isStored)
    })
  }

  sweepRows(of?: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      this.#rows.forget(of)
      await this.#tidy()
    })
  }

  readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    return this.#turn(async () => {
      const head = rules.usable(this.#readable()?.head, hintId, 'whole')
      const row = await this.#rows.read(hintId, name)
      if (row === undefined) throw rules.missingRow(head, since)
      return row
    })
  }

  putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      rules.usable(this.#readable()?.head, hintId, 'whole')
      await this.#putValue(hintId, 'verifier', 0, verifier)
    })
  }

  readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#turn(async () => {
      rules.usable(this.#readable()?.head, hintId, 'whole')
      const [verifier] = (await rules.unlessTorn(this.#value(hintId, 'verifier', 0))) ?? []
      return verifier
    })
  }

  condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    return this.#turn(async () => {
      const head = rules.condemned(this.#readable()?.head, hintId, culprit)
      if (head === undefined) return
      await this.#replace({ head, entries: [] })
    })
  }

  discard(hintId: Uint8Array | undefined): Promise<void> {
    return this.#turn(async () => {
      rules.assertDiscardable(this.#replaceable(hintId)?.head, hintId)
      await this.#clear()
    })
  }

  erase(): Promise<void> {
    return this.#turn(() => {
      this.#rows.forget()
      return this.#clear()
    })
  }

  async close(): Promise<void> {
    await this.#turns.take(async () => {
      if (this.#over instanceof Closed) return
      this.#over = new Closed()
      await this.#journal?.close().catch(() => {}) // everything was synced
      await asStoreErrors(this.#unlock)
    })
  }

  #turn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.take(async () => {
      if (this.#over instanceof Closed) throw this.#over
      if (this.#over !== undefined) {
        throw new StoreUnavailableError('a write failed half-way; open the state anew', { cause: this.#over })
      }
      return await asStoreErrors(work)
    })
  }

  #readable(): State | undefined {
    if (this.#state instanceof StateUnreadableError) throw this.#state
    return this.#state
  }

  /** The state. If `hintId` is undefined, an unreadable state counts as none. */
  #replaceable(hintId: Uint8Array | undefined): State | undefined {
    return hintId === undefined && this.#state instanceof StateUnreadableError ? undefined : this.#readable()
  }

  async #load(): Promise<void> {
    const bytes = await this.#disk.read(JOURNAL)
    try {
      this.#state = bytes && decodeJournal(bytes)
    } catch (error) {
      if (!(error instanceof StateUnreadableError)) throw error
      this.#state = error
      return
    }
    // Its last frame may be incomplete, or may never have been synced: the journal is written anew.
    if (this.#state !== undefined) await this.#replace(this.#state)
    else await this.#tidy()
  }

  /** Replaces the journal, then removes the files `without`, and all others that the new journal does not refer to. */
  async #replace(state: State, without: readonly string[] = []): Promise<void> {
    await this.#putFile(JOURNAL, encodeJournal(state))
    await this.#whole(async () => {
      await this.#journal?.close()
      this.#journal = await this.#disk.append(JOURNAL)
      this.#state = state
      for (const name of without) await this.#disk.remove(name)
      await this.#tidy()
    })
  }

  /** Removes the journal, then everything else. */
  async #clear(): Promise<void> {
    await this.#whole(async () => {
      await this.#journal?.close()
      this.#journal = undefined
      await this.#disk.remove(JOURNAL)
      await this.#disk.sync()
      this.#state = undefined
      await this.#tidy()
    })
  }

  /** Appends a frame, after which the journal holds `state`. */
  async #append(frame: Frame, state: State): Promise<void> {
    await this.#whole(async () => {
      await this.#journal!.write(encodeFrame(frame, state.head.record.hintId))
      await this.#journal!.sync()
      this.#state = state
    })
  }

  async #putValue(hintId: Uint8Array, value: FileKind, version: number, ...payloads: Uint8Array[]): Promise<void> {
    const bytes = encodeValue(hintId, value, version, payloads)
    await this.#putFile(valueName(hintId, value, version), bytes, value !== 'verifier') // which may be lost
  }

  async #value(hintId: Uint8Array, value: FileKind, version: number): Promise<Uint8Array[]> {
    return decodeValue(hintId, value, version, await this.#disk.read(valueName(hintId, value, version)))
  }

  /** Writes a file, or leaves it as it was. It is durable, with its name, when the promise resolves. `whole`: as in #whole. */
  async #putFile(name: string, bytes: Uint8Array, whole = true): Promise<void> {
    try {
      await this.#disk.remove(name + NEW)
      await writeNew(this.#disk, name + NEW, bytes)
    } catch (error) {
      await this.#disk.remove(name + NEW).catch(() => {}) // if this fails too, the next open() removes it
      throw error
    }
    const put = async () => {
      await this.#disk.rename(name + NEW, name)
      await this.#disk.sync()
    }
    await (whole ? this.#whole(put) : put())
  }

  /** Removes all files that the state does not refer to, such as the secrets of an earlier state. */
  async #tidy(): Promise<void> {
    const head = this.#readable()?.head
    const needed = namesOf(head)
    const rows = this.#rows.prefixes(head)
    for (const name of await this.#disk.list()) {
      if (needed.includes(name) || rows.some(prefix => name.startsWith(prefix))) continue
      await this.#disk.remove(name)
    }
    await this.#disk.sync()
  }

  /** Runs work that must not stop half-way. If it fails, it is not known what the disk holds, and this store refuses calls. */
  async #whole(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#over = error as Error
      throw error
    }
  }
}
