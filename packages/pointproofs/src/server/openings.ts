// The openings of all records, from which answers of suite 6 are proved (docs/protocol.md, Pointproofs). A row has the openings of one
// epoch and the edits of its records since. An answer applies the edits up to its own epoch, so it is right at every answered epoch.
// Rows with many edits are folded: their openings are computed anew.

import { setImmediate as nextTask } from 'node:timers/promises'
import {
  encodeAnswerTo,
  grownRowLists,
  HEADER_BYTES,
  type Manifest,
  POINTPROOF_BYTES,
  POINTPROOFS_ROW_RECORDS,
  partitionBlocks,
  partitionRows,
  rowListsBytes,
  rowOfBlock,
  rowPlace,
  SUITE_POINTPROOFS,
  toHex,
} from '@keyhush/protocol'
import {
  type ChangedRows,
  type Dated,
  type Folding,
  type ProvedEpoch,
  type RowProofs,
  recordBytesView,
  type Unproved,
} from '@keyhush/server/proofs'
import type { Core, DatabaseHandle } from '@keyhush/wasm'
import { AnswerThread } from './answer-thread.js'
import { type ChangedBlocks, changedBlocks } from './changed-blocks.js'
import { type Fold, type FoldedRows, RowFolding } from './folding.js'
import { EDIT_BYTES, OPENING_BYTES, type PointproofsProver } from './module.js'
import { shapeOf } from './proving.js'
import type { Setup } from './setup.js'

/** Most edits that an answer to one query applies, about, in all its rows together. */
const MOST_CORRECTIONS = 64
/** The bounds of that number for one row. A row with more edits is folded. */
const MOST_EDITS = { least: 2, most: 8 }
/** A row with an older edit is folded, too: until then the store keeps the edit's update list. */
const MOST_EPOCHS = 32

/** Openings on disk, and what came after. */
interface Row extends Dated {
  /** ascending by epoch; EDIT_BYTES an edit */
  edits: readonly { readonly epoch: number; readonly bytes: Uint8Array }[]
  /** of a later epoch; the epoch before that may still be answered out of those on disk */
  ahead?: Dated
}

/** Edits between two iterations of the event loop: some milliseconds. */
const EDITS_AT_ONCE = 32

/** Edits and their rows: `rows` ascending; edit n is in row `rows[of[n]]`. */
interface Edits {
  readonly rows: readonly number[]
  readonly of: Uint32Array
  readonly edits: Uint8Array
}

/** A database's prover and its setup. */
export interface Proved {
  readonly prover: PointproofsProver
  readonly setup: Setup
}

/** Openings of records that are all zero. */
export function zeroOpenings(records: number): Uint8Array {
  const openings = new Uint8Array(records * OPENING_BYTES)
  for (let n = 0; n < records; n++) openings[n * OPENING_BYTES] = 0x40 // the identity
  return openings
}

export class Openings implements RowProofs, FoldedRows {
  readonly suite = SUITE_POINTPROOFS
  readonly proved: Proved
  readonly #core: Core
  /** but for Q, which may grow */
  readonly #layout: Manifest
  readonly #rows: Row[]
  readonly #thread: AnswerThread
  /** those with edits */
  readonly #edited = new Set<number>()
  #rowLists: Uint8Array
  /** row lists of the two newest epochs by their hash in hex, the newest last */
  #blobs = new Map<string, Uint8Array>()

  /** `rows` are all rows' of all partitions, `rowLists` and `layout` as of an epoch no earlier than any of them. */
  constructor(core: Core, proved: Proved, layout: Manifest, rows: readonly Dated[], rowLists: Uint8Array) {
    this.proved = proved
    this.#core = core
    this.#layout = layout
    this.#rows = rows.map(row => ({ ...row, edits: [] }))
    this.#rowLists = rowLists
    this.#keep(rowLists)
    this.#thread = new AnswerThread(proved.setup.proving)
  }

  get transcript(): Uint8Array {
    return this.proved.setup.transcript
  }

  folding(newest: () => Manifest, write: (row: number, openings: Dated) => Promise<boolean>): Folding {
    return new RowFolding(this, newest, write)
  }

  /** The key, or row lists of the two newest epochs, by their hash in hex. */
  blob(hash: string): Uint8Array | undefined {
    const { fields, key } = this.proved.setup
    return hash === toHex(fields.keyHash) ? key : this.#blobs.get(hash)
  }

  /** Returns their hash. */
  #keep(rowLists: Uint8Array): Uint8Array {
    const hash = this.#core.blake3(rowLists)
    this.#blobs.delete(toHex(hash)) // they go to the end
    this.#blobs = new Map([...this.#blobs].slice(-1)).set(toHex(hash), rowLists)
    return hash
  }

  /** Of the newest epoch, one behind the other. */
  get rowLists(): Uint8Array {
    return this.#rowLists
  }

  /** By their number, q·R + r. */
  rows(): readonly Dated[] {
    return this.#rows
  }

  /** All edits up to this epoch are folded: update lists after it are still needed. */
  get foldedTo(): number {
    let to = Number.POSITIVE_INFINITY
    for (const row of this.#edited) to = Math.min(to, this.#rows[row]!.edits[0]!.epoch - 1)
    return to
  }

  unproved(body: Uint8Array, queries: Uint8Array, { manifest, manifestHash }: ProvedEpoch): Unproved {
    const { epoch, partitions } = manifest
    const offsets = new Uint16Array(queries.length / 2)
    const openings = new Uint8Array(offsets.length * OPENING_BYTES)
    const perPartition = partitionRows(manifest)
    const entries: number[] = []
    const edits: Uint8Array[] = []
    for (let n = 0; n < offsets.length; n++) {
      const offset = queries[2 * n]! | (queries[2 * n + 1]! << 8)
      offsets[n] = offset
      const number = (n % partitions) * perPartition + Math.floor(offset / POINTPROOFS_ROW_RECORDS)
      const row = this.#rows[number]!
      const from = row.ahead !== undefined && row.ahead.epoch <= epoch ? row.ahead : row
      const at = (offset % POINTPROOFS_ROW_RECORDS) * OPENING_BYTES
      openings.set(from.bytes.subarray(at, at + OPENING_BYTES), n * OPENING_BYTES)
      for (const { epoch: since, bytes } of row.edits) {
        if (since <= from.epoch) continue
        if (since > epoch) break
        edits.push(bytes)
        for (let k = 0; k < bytes.length; k += EDIT_BYTES) entries.push(n)
      }
    }
    const answer = encodeAnswerTo({ suite: SUITE_POINTPROOFS, count: offsets.length / partitions }, manifest, body)
    const end = answer.length - POINTPROOF_BYTES
    const [header, records] = [answer.subarray(0, HEADER_BYTES), answer.subarray(HEADER_BYTES, end)]
    const corrections = { entries: Uint32Array.from(entries), edits: Buffer.concat(edits) }
    const task = { shape: shapeOf(manifest), manifestHash, header, offsets, records, openings, ...corrections }
    return {
      entries: offsets.length,
      prove: async () => {
        answer.set(await this.#thread.prove(task), end)
        return answer.subarray(HEADER_BYTES)
      },
    }
  }

  /** Applies a list, to `epoch`, which `database` is at. Behind the list stand the rows touched, ascending, 48 bytes each. */
  async advance(epoch: number, list: Uint8Array, database: DatabaseHandle): Promise<ChangedRows> {
    const { layout: handle } = database
    const { partitions } = handle
    handle.free()
    const layout = { ...this.#layout, partitions }
    for (let row = this.#rows.length; row < partitions * partitionRows(layout); row++) {
      this.#rows.push({ epoch: 0, bytes: zeroOpenings(recordsOf(layout, row)), edits: [] })
    }
    const edits = this.#editsOf(changedBlocks(this.#core, layout, list, this.blocksOf(database)))
    const lists = grownRowLists(this.#rowLists, layout)
    const rows = await this.#followed(lists, edits)
    this.#rowLists = lists
    this.#note(epoch, edits)
    return { rows, rowsHash: this.#keep(lists) }
  }

  /** Gives a block's bytes by its number. */
  blocksOf(database: DatabaseHandle): (block: number) => Uint8Array {
    const bytes = this.#layout.recordBytes * this.#layout.blockRecords
    return block => recordBytesView(this.#core, database, block * bytes, bytes)
  }

  /** Restores the row lists of the epoch before the newest, of so many partitions, from what it changed. Returns their hash. */
  async restoreBefore(partitions: number, { blocks, old, now }: ChangedBlocks): Promise<Uint8Array> {
    const lists = this.#rowLists.slice()
    await this.#followed(lists, this.#editsOf({ blocks, old: now, now: old }))
    const hash = this.#keep(lists.subarray(0, rowListsBytes({ ...this.#layout, partitions })))
    this.#keep(this.#rowLists)
    return hash
  }

  /** Applies edits to the row lists, in place, and yields to answers. Returns the touched commitments. */
  async #followed(lists: Uint8Array, { rows, of, edits }: Edits): Promise<Uint8Array> {
    const places = rows.map(row => rowPlace(row, this.#layout))
    const touched = Buffer.concat(places.map(at => lists.subarray(at, at + POINTPROOF_BYTES)))
    for (let n = 0; n < of.length; n += EDITS_AT_ONCE) {
      const some = of.subarray(n, n + EDITS_AT_ONCE)
      // Edits are in the order of their rows.
      const [first, last] = [some[0]!, some.at(-1)!]
      const at = [first * POINTPROOF_BYTES, (last + 1) * POINTPROOF_BYTES] as const
      const bytes = edits.subarray(n * EDIT_BYTES, (n + some.length) * EDIT_BYTES)
      const places = some.map(row => row - first)
      touched.set(this.proved.prover.follow(touched.subarray(...at), places, bytes), at[0])
      await nextTask()
    }
    for (const [n, at] of places.entries()) {
      lists.set(touched.subarray(n * POINTPROOF_BYTES, (n + 1) * POINTPROOF_BYTES), at)
    }
    return touched
  }

  /** After a start: notes what `epoch` changed, for rows with older openings. Called with ascending epochs. */
  missed(epoch: number, changed: ChangedBlocks): void {
    this.#note(epoch, this.#editsOf(changed))
  }

  #editsOf({ blocks, old, now }: ChangedBlocks): Edits {
    const numbers = Array.from(blocks, block => rowOfBlock(block, this.#layout))
    const rows = [...new Set(numbers)]
    const places = new Map(rows.map((row, n) => [row, n]))
    const of = Uint32Array.from(numbers, row => places.get(row)!)
    return { rows, of, edits: this.proved.prover.edits(blocks, old, now) }
  }

  #note(epoch: number, { rows, of, edits }: Edits): void {
    const sorted = rows.map((): Uint8Array[] => [])
    for (const [n, row] of of.entries()) sorted[row]!.push(edits.subarray(n * EDIT_BYTES, (n + 1) * EDIT_BYTES))
    for (const [n, number] of rows.entries()) {
      const row = this.#rows[number]!
      if (epoch <= row.epoch) continue
      row.edits = [...row.edits, { epoch, bytes: Buffer.concat(sorted[n]!) }]
      this.#edited.add(number)
    }
  }

  /** The row to fold next, up to the newest epoch: the one with most edits. Answers at the epoch before use its old openings. */
  next(newest: Manifest): Fold | undefined {
    const { least, most } = MOST_EDITS
    const allowed = Math.max(least, Math.min(most, Math.floor(MOST_CORRECTIONS / newest.partitions)))
    let heaviest: (Fold & { readonly count: number }) | undefined
    for (const number of this.#edited) {
      const row = this.#rows[number]!
      // One fold at a time: this one is not yet on disk.
      if (row.ahead !== undefined) continue
      const known = row.edits.filter(({ epoch }) => epoch <= newest.epoch)
      const count = known.reduce((sum, { bytes }) => sum + bytes.length / EDIT_BYTES, 0)
      const isOld = count > 0 && known[0]!.epoch <= newest.epoch - MOST_EPOCHS
      if ((count <= allowed && !isOld) || count <= (heaviest?.count ?? 0)) continue
      const edits = Buffer.concat(known.map(({ bytes }) => bytes))
      heaviest = { row: number, epoch: newest.epoch, bytes: row.bytes, edits, count }
    }
    return heaviest
  }

  /** They may be answered from. */
  folded(row: number, openings: Dated): void {
    this.#rows[row]!.ahead = openings
  }

  /** Folded openings no later than `epoch`, the earliest that is answered: they are to be on disk. */
  *settled(epoch: number): Iterable<[row: number, Dated]> {
    for (const row of this.#edited) {
      const { ahead } = this.#rows[row]!
      if (ahead !== undefined && ahead.epoch <= epoch) yield [row, ahead]
    }
  }

  /** They are on disk. */
  stored(row: number, { epoch, bytes }: Dated): void {
    const edits = this.#rows[row]!.edits.filter(edit => edit.epoch > epoch)
    this.#rows[row] = { epoch, bytes, edits }
    if (edits.length === 0) this.#edited.delete(row)
  }

  free(): void {
    this.#thread.giveBack()
    this.proved.prover.free()
  }
}

/** Records of a row: the last row of a partition may have fewer. */
export function recordsOf(layout: Manifest, row: number): number {
  const before = (row % partitionRows(layout)) * POINTPROOFS_ROW_RECORDS
  return Math.min(POINTPROOFS_ROW_RECORDS, partitionBlocks(layout) - before)
}
