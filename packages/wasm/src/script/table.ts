// A whole directory (rust-core/core/src/directory/table.rs). A key is read from its padded block, as a client reads it that has no
// other. What blocks and lists are made of is public.

import { bytesToHex } from '@noble/hashes/utils.js'
import type { DirectoryHandle, DirectoryShapeHandle, LayoutHandle } from '../core/base.js'
import { DirectoryShape, ENTRY_BYTES, HEADER_BYTES, isAscending, perfectIn, tooShort, viewOf } from './directory.js'
import { directoryError, expectLength, expectList, indexError, updateError } from './failure.js'
import { FINGERPRINT_BYTES } from './hashes.js'
import { type Layout, own } from './layout.js'
import { ADD, DELETE, type Entry, readList } from './list.js'
import { hashOf } from './wyhash.js'

const MAGIC = 0x4452_4950 // 'PIRD'
const FORMAT = 1
/** of a stored directory */
const TABLE_HEADER_BYTES = 32
const MAX_ENTRIES = 0xffff
/** Read in one step, with a full overlay in some milliseconds. */
const BLOCKS_AT_ONCE = 64

/** A fingerprint gets an index, or loses its own. */
type Change = ReturnType<typeof changesOf>[number]

export class Directory implements Omit<DirectoryHandle, 'replayed'> {
  readonly keys: number
  readonly #shape: DirectoryShape
  /** the stored form's header, and the blocks without padding */
  readonly #header: Uint8Array
  readonly #blocks: readonly Uint8Array[]

  private constructor(shape: DirectoryShape, keys: number, header: Uint8Array, blocks: readonly Uint8Array[]) {
    this.#shape = shape
    this.keys = keys
    this.#header = header
    this.#blocks = blocks
  }

  /** Reads a stored form. Throws `directory`. */
  static decode(stored: Uint8Array, records: number): Directory {
    const reading = Directory.reading(stored, records)
    for (;;) {
      const { done, value } = reading.next()
      if (done) return value
    }
  }

  /** The same in steps of some milliseconds, each up to a `yield`. */
  static *reading(stored: Uint8Array, records: number): Generator<void, Directory> {
    const bytes = stored.slice()
    if (bytes.length < TABLE_HEADER_BYTES) throw tooShort()
    const view = viewOf(bytes)
    if (view.getUint32(0, true) !== MAGIC || view.getUint16(4, true) !== FORMAT) {
      throw directoryError('this is not a directory of format 1')
    }
    if (view.getUint32(12, true) !== 0) throw directoryError('reserved bytes are not zero')
    const shape = shapeOf(view.getUint16(6, true), view.getUint32(8, true), bytes.subarray(16, TABLE_HEADER_BYTES))
    const { records: count, recordBytes: most } = shape.layout
    let [keys, at] = [0, TABLE_HEADER_BYTES]
    const blocks: Uint8Array[] = []
    for (let number = 0; number < count; number++) {
      if (number % BLOCKS_AT_ONCE === BLOCKS_AT_ONCE - 1) yield
      const rest = bytes.subarray(at)
      const { overlayAt, end } = partsOf(rest)
      if (end > most) throw directoryError('a block is longer than its length')
      const block = viewOf(rest)
      if (block.getUint32(0, true) !== keys) {
        throw directoryError('a block does not begin where the one before it ends')
      }
      keys += block.getUint16(4, true)
      let beyond = false
      for (let entry = overlayAt; entry < end; entry += ENTRY_BYTES) {
        if (shape.number(rest.subarray(entry, entry + FINGERPRINT_BYTES)) !== number) {
          throw directoryError('a key is in the overlay of another block than its own')
        }
        beyond ||= block.getUint32(entry + FINGERPRINT_BYTES, true) >= records
      }
      if (beyond) throw beyondDatabase()
      at += end
      blocks.push(rest.subarray(0, end))
    }
    if (at < bytes.length) throw directoryError('bytes follow the end')
    if (keys === 0) throw directoryError('there are no keys')
    if (keys > records) throw beyondDatabase()
    return new Directory(shape, keys, bytes.subarray(0, TABLE_HEADER_BYTES), blocks)
  }

  encode(): Uint8Array {
    return concatenated([this.#header, ...this.#blocks])
  }

  index(fingerprint: Uint8Array, records: number): number {
    const padded = new Uint8Array(this.#shape.layout.recordBytes)
    padded.set(this.#blocks[this.#shape.number(fingerprint)]!)
    try {
      return this.#shape.index(padded, fingerprint, records)
    } catch {
      throw indexError('index in the directory', records >>> 0) // its blocks are well-formed
    }
  }

  indices(fingerprints: Uint8Array, records: number): Uint32Array {
    const rest = fingerprints.length % FINGERPRINT_BYTES
    expectLength('rest of a fingerprint', fingerprints.subarray(fingerprints.length - rest), 0)
    return Uint32Array.from({ length: fingerprints.length / FINGERPRINT_BYTES }, (_, i) =>
      this.index(fingerprints.subarray(i * FINGERPRINT_BYTES, (i + 1) * FINGERPRINT_BYTES), records),
    )
  }

  updated(list: Uint8Array, before: LayoutHandle, after: LayoutHandle): DirectoryHandle {
    const changes = new Map<number, Change[]>()
    const entries = expectList(readList(list, own(before), own(after)))
    for (const change of changesOf(entries, own(after))) {
      const number = this.#shape.number(change.print)
      const others = changes.get(number)
      if (others) others.push(change)
      else changes.set(number, [change])
    }
    const blocks = this.#blocks.slice()
    for (const [number, ofBlock] of changes) blocks[number] = this.#changed(blocks[number]!, ofBlock)
    return new Directory(this.#shape, this.keys, this.#header, blocks) as Directory & DirectoryHandle
  }

  isOf(shape: DirectoryShapeHandle): boolean {
    const { layout, seed } = shape as DirectoryShape
    return this.isShaped(Math.log2(layout.records), layout.recordBytes, seed)
  }

  /** Whether it has 2^`log` blocks of so many bytes, and this seed. */
  isShaped(log: number, blockBytes: number, seed: Uint8Array): boolean {
    const { layout, seed: own } = this.#shape
    const isSameSize = layout.records === 2 ** log && layout.recordBytes === blockBytes
    return isSameSize && bytesToHex(own) === bytesToHex(seed)
  }

  free(): void {}

  /** A block with changes to its overlay. An entry that agrees with the perfect hash is left out. Throws `update`. */
  #changed(block: Uint8Array, changes: readonly Change[]): Uint8Array {
    const view = viewOf(block)
    const { overlayAt, end } = partsOf(block)
    const overlay = new Map<string, Uint8Array>()
    for (let at = overlayAt; at < end; at += ENTRY_BYTES) {
      overlay.set(bytesToHex(block.subarray(at, at + FINGERPRINT_BYTES)), block.subarray(at, at + ENTRY_BYTES))
    }
    const [base, keys] = [view.getUint32(0, true), view.getUint16(4, true)]
    const isPerfect = (print: Uint8Array, index: number) => {
      if (index < base || index >= base + keys) return false
      const seeded = this.#shape.seeded(print)
      const { perfect, found } = perfectIn(view, level => hashOf(seeded, level))
      return found !== 0 && base + perfect === index
    }
    for (const { print, index } of changes) {
      if (index === undefined || isPerfect(print, index)) {
        overlay.delete(bytesToHex(print))
      } else {
        const entry = new Uint8Array(ENTRY_BYTES)
        entry.set(print)
        viewOf(entry).setUint32(FINGERPRINT_BYTES, index, true)
        overlay.set(bytesToHex(print), entry)
      }
    }
    const entries = [...overlay.keys()].sort().map(print => overlay.get(print)!)
    const changed = concatenated([block.subarray(0, overlayAt), ...entries])
    if (entries.length > MAX_ENTRIES || changed.length > this.#shape.layout.recordBytes) {
      throw updateError('a block of the directory has no room for its keys; begin a new generation')
    }
    viewOf(changed).setUint16(6, entries.length, true)
    return changed
  }
}

function shapeOf(log: number, blockBytes: number, seed: Uint8Array): DirectoryShape {
  try {
    return new DirectoryShape(log, blockBytes, seed)
  } catch {
    throw directoryError('expected at most 2^16 blocks, each a multiple of 32 bytes, up to 65536 bytes')
  }
}

/** Where the overlay of the block at the beginning of `bytes` begins, and where it ends. Throws `directory`. */
function partsOf(bytes: Uint8Array): { overlayAt: number; end: number } {
  if (bytes.length < HEADER_BYTES) throw tooShort()
  const view = viewOf(bytes)
  const { at: overlayAt } = perfectIn(view, () => 0)
  const end = overlayAt + view.getUint16(6, true) * ENTRY_BYTES
  if (end > bytes.length) throw tooShort()
  for (let at = overlayAt; at + ENTRY_BYTES < end; at += ENTRY_BYTES) {
    if (!isAscending(bytes.subarray(at, at + FINGERPRINT_BYTES), bytes.subarray(at + ENTRY_BYTES))) {
      throw directoryError('an overlay is not strictly ascending')
    }
  }
  return { overlayAt, end }
}

function beyondDatabase() {
  return directoryError('it leads beyond the database')
}

function concatenated(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** The fingerprints that a list deletes and then those that it adds, each with its index. Throws `update`. */
function changesOf(entries: readonly Entry[], { recordBytes }: Layout) {
  if (recordBytes < FINGERPRINT_BYTES) throw updateError('a record has no room for a fingerprint of 16 bytes')
  return [DELETE, ADD].flatMap(wanted =>
    entries
      .filter(({ kind }) => kind === wanted)
      .map(({ difference, index }) => ({
        print: difference.subarray(0, FINGERPRINT_BYTES),
        index: wanted === ADD ? index : undefined,
      })),
  )
}
