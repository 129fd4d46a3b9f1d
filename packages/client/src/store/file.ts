// State in a folder of files.
//
//   journal                     the head, the entries since the checkpoint, then what happened since, frame by frame
//   <hint>.checkpoint.<version> a checkpoint, its manifest and its directory: a frame each
//   <hint>.row.<name>           a row of a hint, or of one that is prepared beside it: a frame
//   <hint>.partial.<version>    of a half-made hint: one frame; <hint>.directory.<version> likewise
//   <hint>.verifier.0           of a whole one, if anything is kept, what verifies its answers: one frame
//   lock                        empty; locked by who has the folder open (folder.ts)
//
// Every lookup appends two frames to the journal, a pending batch and its effect, each synced before its promise
// resolves (S1): so at most the last frame can be incomplete, and whoever wrote it was never told that it is stored. It
// is dropped. A frame that is all there and does not check, the last one included, makes the state unreadable: it may
// have been stored and shown to a server before it rotted, and a state without it would be an older state (S3).
//
// Whatever else changes the state replaces the journal: values first, each written under another name, synced and
// renamed; then the new journal in the same way, whose rename is the one step that counts; then what it no longer needs
// is removed. A crash in between leaves the old state or the new one, and files that the next open() removes.
//
// What is in the journal is kept in memory too: the folder's lock is held, so nobody else changes it.
//
// Nothing is sealed. Node has no place for a key that whoever reads these files could not read as well; the files are
// for their owner's eyes alone (0600), and the disk's encryption is the operating system's business.

import { equalBytes, fromHex, toHex } from '@keyhush/protocol'
import { Turns } from '../base/mutex.js'
import type { Disk, OpenFile } from './disk.js'
import { decodeFrame, encodeFrame, type Frame, type FrameKind } from './frames.js'
import { fromRow, toRow } from './head.js'
import * as rules from './rules.js'
import {
  type Advance,
  type HintRecord,
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

/** What the journal says. */
interface State {
  readonly head: rules.StoredHead
  /** from the checkpoint's version up to the head's */
  readonly entries: readonly Uint8Array[]
}

/** What the files besides the journal consist of. */
const PARTS = {
  partial: ['part'],
  directory: ['dire'],
  checkpoint: ['chec', 'mani', 'dire'],
  verifier: ['veri'],
} as const satisfies Record<string, readonly FrameKind[]>

type Value = keyof typeof PARTS

const JOURNAL = 'journal'
const NEW = '.new'
const NO_HINT = new Uint8Array()

export class FileStore implements StateStore {
  readonly durable = true
  readonly #disk: Disk
  readonly #unlock: () => Promise<void>
  readonly #turns = new Turns()
  /** where the rows begin of hints that have not begun yet */
  readonly #beside = new Set<string>()
  /** undefined: nothing is stored; an error: it cannot be read */
  #state: State | StateUnreadableError | undefined
  /** the journal, open at its end; undefined if there is none, or an unreadable one */
  #journal: OpenFile | undefined
  /** why this store does no more: it is closed, or a write has failed half-way */
  #over: Error | undefined

  private constructor(disk: Disk, unlock: () => Promise<void>) {
    this.#disk = disk
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
      const rows = await this.#rows(hintId)
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
      rules.assertRowsLeft(rows, new Set(await this.#rows(record.hintId)))
      await this.#putValue(record.hintId, 'directory', 0, directory)
      await this.#putValue(record.hintId, 'partial', 0, partial)
      this.#beside.clear()
      await this.#replace({ head, entries: [] })
    })
  }

  putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      rules.halfMade(this.#readable()?.head, hintId, version)
      await this.#disk.sync() // names of rows, before what names them
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
      const unnamed = await this.#rowsBut(hintId, rows)
      const [directory] = await this.#value(hintId, 'directory', version)
      await this.#putValue(hintId, 'checkpoint', version, checkpoint, head.record.manifest, directory!)
      await this.#replace({ head, entries: [] }, unnamed)
    })
  }

  putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      const state = this.#readable()
      const head = rules.withPending(state?.head, hintId, version, pending.slice())
      if (state!.head.pending !== undefined) return // the same bytes, and what this store has seen is synced
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
      const unnamed = await this.#rowsBut(hintId, rows)
      await this.#putValue(hintId, 'checkpoint', version, checkpoint, manifest, directory)
      await this.#replace({ head: { ...head, journalBytes: rules.totalBytes(entries) }, entries }, unnamed)
    })
  }

  // Its name is durable before anything is that names it. What a crash leaves half-written under it nothing names.
  putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      const head = this.#replaceable(undefined)?.head
      const isStored = head?.condemned === undefined && head !== undefined && equalBytes(head.record.hintId, hintId)
      if (!isStored) this.#beside.add(rowName(hintId, ''))
      const file = rowName(hintId, name)
      await this.#disk.remove(file)
      await this.#putNew(file, encodeFrame({ kind: 'trow', version: 0, payload: row }, hintId))
    })
  }

  sweepRows(of?: Uint8Array): Promise<void> {
    return this.#turn(async () => {
      if (of === undefined) this.#beside.clear()
      else this.#beside.delete(rowName(of, ''))
      await this.#tidy()
    })
  }

  readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    return this.#turn(async () => {
      const head = rules.usable(this.#readable()?.head, hintId, 'whole')
      const bytes = await this.#disk.read(rowName(hintId, name))
      if (bytes === undefined) throw rules.missingRow(head, since)
      const next = decodeFrame(bytes, 0, hintId)
      if (next?.frame.kind !== 'trow' || next.end !== bytes.length) {
        throw new StateUnreadableError('a stored row is torn or foreign')
      }
      return next.frame.payload
    })
  }

  /** The files of those rows of a hint that are not among these, all of which are there. */
  async #rowsBut(hintId: Uint8Array, names: readonly string[]): Promise<readonly string[]> {
    if (names.length > 0) await this.#disk.sync() // their names, before what names them
    const there = await this.#rows(hintId)
    rules.assertRows(names, new Set(there))
    const named = new Set(names)
    return there.filter(name => !named.has(name)).map(name => rowName(hintId, name))
  }

  /** The names of a hint's rows. */
  async #rows(hintId: Uint8Array): Promise<string[]> {
    const prefix = rowName(hintId, '')
    return (await this.#disk.list()).filter(file => file.startsWith(prefix)).map(file => file.slice(prefix.length))
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
      this.#beside.clear()
      return this.#clear()
    })
  }

  async close(): Promise<void> {
    await this.#turns.take(async () => {
      if (this.#over instanceof Closed) return
      this.#over = new Closed()
      await this.#journal?.close().catch(() => {}) // what had to be stored was synced
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

  /** The state, where one that cannot be read counts as none if `hintId` is undefined. */
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
    // Whoever wrote it may not have lived to sync its last frame, or may have left half of one: it is written anew.
    if (this.#state !== undefined) await this.#replace(this.#state)
    else await this.#tidy()
  }

  /** A new journal in place of the old one; then nothing is left but what it refers to, and that without these. */
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

  /** No journal, and then nothing else. */
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

  /** One more frame, after which the journal says `state`. */
  async #append(frame: Frame, state: State): Promise<void> {
    await this.#whole(async () => {
      await this.#journal!.write(encodeFrame(frame, state.head.record.hintId))
      await this.#journal!.sync()
      this.#state = state
    })
  }

  async #putValue(hintId: Uint8Array, value: Value, version: number, ...payloads: Uint8Array[]): Promise<void> {
    const frames = PARTS[value].map((kind, i) => encodeFrame({ kind, version, payload: payloads[i]! }, hintId))
    const [name, bytes] = [valueName(hintId, value, version), joined(frames)]
    await this.#putFile(name, bytes, value !== 'verifier') // which may be there, half there, or not
  }

  async #value(hintId: Uint8Array, value: Value, version: number): Promise<Uint8Array[]> {
    const name = valueName(hintId, value, version)
    const unreadable = () => new StateUnreadableError(`the stored file ${name} is missing, torn or foreign`)
    const bytes = await this.#disk.read(name)
    if (bytes === undefined) throw unreadable()
    let end = 0
    const payloads = PARTS[value].map(kind => {
      const next = decodeFrame(bytes, end, hintId)
      if (next?.frame.kind !== kind || next.frame.version !== version) throw unreadable()
      end = next.end
      return next.frame.payload
    })
    if (end !== bytes.length) throw unreadable()
    return payloads
  }

  /** A file with these bytes, or as it was before. Durable, with its name, when the promise resolves. `whole`: see there. */
  async #putFile(name: string, bytes: Uint8Array, whole = true): Promise<void> {
    try {
      await this.#disk.remove(name + NEW)
      await this.#putNew(name + NEW, bytes)
    } catch (error) {
      await this.#disk.remove(name + NEW).catch(() => {}) // make room; if that fails too, the next open() does
      throw error
    }
    const put = async () => {
      await this.#disk.rename(name + NEW, name)
      await this.#disk.sync()
    }
    await (whole ? this.#whole(put) : put())
  }

  /** A file that is not there yet. Its bytes are durable when the promise resolves, its name is not. */
  async #putNew(name: string, bytes: Uint8Array): Promise<void> {
    const file = await this.#disk.create(name)
    try {
      await file.write(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  /** Removes all files that the state does not refer to, an earlier one's secrets among them. */
  async #tidy(): Promise<void> {
    const head = this.#readable()?.head
    const needed = namesOf(head)
    const rows = [...this.#beside]
    if (head !== undefined && head.condemned === undefined) rows.push(rowName(head.record.hintId, ''))
    for (const name of await this.#disk.list()) {
      if (needed.includes(name) || rows.some(prefix => name.startsWith(prefix))) continue
      await this.#disk.remove(name)
    }
    await this.#disk.sync()
  }

  /** Work that must not stop half-way. If it does, what a disk now holds is not known, and this store does no more. */
  async #whole(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#over = error as Error
      throw error
    }
  }
}

class Closed extends StoreUnavailableError {
  constructor() {
    super('this store is closed')
  }
}

function valueName(hintId: Uint8Array, value: Value, version: number): string {
  return `${toHex(hintId)}.${value}.${version}`
}

function rowName(hintId: Uint8Array, name: string): string {
  return `${toHex(hintId)}.row.${name}`
}

/** The files that a state consists of, rows apart. */
function namesOf(head: rules.StoredHead | undefined): string[] {
  if (head === undefined) return []
  if (head.condemned !== undefined) return [JOURNAL]
  const { record, stage, checkpointVersion } = head
  const values: Value[] = stage === 'partial' ? ['partial', 'directory'] : ['checkpoint']
  const names = values.map(value => valueName(record.hintId, value, checkpointVersion))
  return [JOURNAL, ...names, valueName(record.hintId, 'verifier', 0)]
}

function encodeJournal({ head, entries }: State): Uint8Array {
  const { record, version, checkpointVersion } = head
  const row = JSON.stringify(toRow(head), (_, field: unknown) =>
    field instanceof Uint8Array ? { hex: toHex(field) } : field,
  )
  return joined([
    encodeFrame({ kind: 'head', version, payload: new TextEncoder().encode(row) }, NO_HINT),
    ...entries.map((payload, i) =>
      encodeFrame({ kind: 'entr', version: checkpointVersion + i, payload }, record.hintId),
    ),
  ])
}

function joined(frames: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(rules.totalBytes(frames))
  let end = 0
  for (const frame of frames) {
    bytes.set(frame, end)
    end += frame.length
  }
  return bytes
}

/** What a journal says, without an incomplete last frame. Throws StateUnreadableError. */
function decodeJournal(bytes: Uint8Array): State {
  const first = decodeFrame(bytes, 0, NO_HINT)
  if (first?.frame.kind !== 'head') throw new StateUnreadableError('the stored journal has no head')
  let head = fromRow(parseRow(first.frame.payload))
  const { hintId } = head.record
  const entries: Uint8Array[] = []
  let start = first.end
  for (let version = head.checkpointVersion; version < head.version; version++) {
    const next = decodeFrame(bytes, start, hintId)
    if (next?.frame.kind !== 'entr' || next.frame.version !== version) {
      throw new StateUnreadableError('entries are missing from the stored journal')
    }
    entries.push(next.frame.payload)
    start = next.end
  }
  for (let next = decodeFrame(bytes, start, hintId); next !== undefined; next = decodeFrame(bytes, next.end, hintId)) {
    const { kind, version, payload } = next.frame
    try {
      if (kind === 'pend') head = rules.withPending(head, hintId, version, payload)
      else if (kind === 'entr') head = rules.committed(head, hintId, version, payload.length)
      else throw new StateUnreadableError(`the stored journal has a frame of kind ${kind}`)
    } catch (cause) {
      throw new StateUnreadableError('the stored journal contradicts itself', { cause })
    }
    if (kind === 'entr') entries.push(payload)
  }
  return { head, entries }
}

function parseRow(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(payload), (_, field: { hex?: unknown } | null) =>
      typeof field?.hex === 'string' ? fromHex(field.hex) : field,
    )
  } catch (cause) {
    throw new StateUnreadableError('the stored head is torn', { cause })
  }
}

async function asStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const known = [StateMovedError, StateUnreadableError, StoreUnavailableError, StoreFullError]
    if (known.some(type => error instanceof type)) throw error
    const { code } = error as { code?: unknown }
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new StoreFullError('the state does not fit on the disk', { cause: error })
    }
    throw new StoreUnavailableError('the folder of the state cannot be used', { cause: error })
  }
}
