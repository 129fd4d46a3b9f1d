// Whether the pages of an LMDB file hold together, before LMDB has it: it believes what it finds there, so that one flipped bit
// could lead it in a circle, out of the file, or to write over what is in use. Pages have no checksums. So all that leads from
// one to another is followed here: both trees, of entries and of free pages, to every page once, keys in order, every offset
// and length within its page. What values hold is for those who put them there to check.
//
// The layout is that of `MDB_page_header`, `MDB_node`, `MDB_db` and `MDB_meta` in mdb.c of lmdb-js (data version 2, of a
// little-endian machine of 64 bits), and free lists are those of its midl-sparse.c.

import { fstatSync, readSync } from 'node:fs'

export const PAGE_BYTES = 4096

const HEADER_BYTES = 24
const NODE_BYTES = 8
const META_PAGES = 2
const OVERFLOW_REFERENCE_BYTES = 24
const NO_ROOT = 0xffffffffffffffffn
const DEEPEST = 32

/** Of a page's header. */
const PAGE = { number: 0, transaction: 8, flags: 18, lower: 20, upper: 22, pages: 20 } as const
const BRANCH = 0x01
const LEAF = 0x02
const OVERFLOW = 0x04
const META = 0x08
const BIG_VALUE = 0x01

/** A tree's only flag: its keys are numbers. */
const NUMBERS = 0x08

/** Of a head page: stamps, then both trees. */
const HEAD = { magic: 24, version: 28, free: 48, main: 96, lastPage: 144, transaction: 152 } as const
/** Of a tree. */
const TREE = {
  pageBytes: 0,
  flags: 4,
  depth: 6,
  branches: 8,
  leaves: 16,
  overflows: 24,
  entries: 32,
  root: 40,
} as const
const TREE_BYTES = 48
const MAGIC = 0xbeefc0de
const VERSION = 2

class Damage extends Error {}

/** Why a file is not to be opened; undefined: nothing is wrong with it. */
export function damageIn(fd: number): string | undefined {
  try {
    new Walk(fd).all()
    return undefined
  } catch (error) {
    if (error instanceof Damage) return error.message
    throw error
  }
}

class Walk {
  readonly #fd: number
  readonly #fileBytes: number
  #pages = 0
  /** a bit for each page that something has led to */
  #seen = new Uint8Array()
  /** the latest, of the head that counts */
  #transaction = 0n

  constructor(fd: number) {
    this.#fd = fd
    this.#fileBytes = fstatSync(fd).size
  }

  all(): void {
    if (this.#fileBytes < META_PAGES * PAGE_BYTES)
      throw new Damage(`it has only ${this.#fileBytes} bytes: it was cut off`)
    const heads = [0, 1].map(number => this.#page(number))
    for (const [number, head] of heads.entries()) {
      if (head.readUInt32LE(HEAD.magic) !== MAGIC || head.readUInt32LE(HEAD.version) !== VERSION) {
        throw new Damage('it is not a store of this version')
      }
      if (head.readUInt16LE(PAGE.flags) !== META || head.readBigUInt64LE(PAGE.number) !== BigInt(number)) {
        throw new Damage(`its head page ${number} is damaged`)
      }
      if (head.readUInt32LE(HEAD.free + TREE.pageBytes) !== PAGE_BYTES) throw new Damage('its pages have another size')
    }
    // By other flags LMDB would compare keys in another order, or take values for trees.
    const isOrdered = (head: Buffer) =>
      head.readUInt16LE(HEAD.free + TREE.flags) === NUMBERS && head.readUInt16LE(HEAD.main + TREE.flags) === 0
    if (!heads.every(isOrdered)) throw new Damage('its trees are of another kind')
    // The head of the later transaction counts.
    const [earlier, later] = heads.map(head => head.readBigUInt64LE(HEAD.transaction)) as [bigint, bigint]
    const head = heads[later > earlier ? 1 : 0]!
    this.#transaction = head.readBigUInt64LE(HEAD.transaction)
    const pages = head.readBigUInt64LE(HEAD.lastPage) + 1n
    if (BigInt(this.#fileBytes) < pages * BigInt(PAGE_BYTES)) {
      const expected = `expected ${pages} pages of ${PAGE_BYTES} bytes, got ${this.#fileBytes} bytes`
      throw new Damage(`${expected}: it was cut off`)
    }
    this.#pages = Number(pages)
    this.#seen = new Uint8Array(Math.ceil(this.#pages / 8))
    for (let number = 0; number < META_PAGES; number++) this.#see(number)
    this.#tree(head.subarray(HEAD.main, HEAD.main + TREE_BYTES), compareBytes)
    const free: Buffer[] = []
    this.#tree(head.subarray(HEAD.free, HEAD.free + TREE_BYTES), compareNumbers, value => free.push(value))
    for (const list of free) this.#freeList(list)
    for (const each of heads) this.#checkStamp(each)
  }

  /** A head has the number of its transaction, and so have the pages that this has written, the root of a tree among them. */
  #checkStamp(head: Buffer): void {
    const stamp = head.readBigUInt64LE(HEAD.transaction)
    const roots = [HEAD.free, HEAD.main]
      .map(at => head.readBigUInt64LE(at + TREE.root))
      .filter(root => root !== NO_ROOT)
    const stamps = roots.map(root => this.#page(Number(root)).readBigUInt64LE(PAGE.transaction))
    if (roots.length > 0 && !stamps.includes(stamp)) throw new Damage('its head pages are not of their transactions')
  }

  /** `onValue` is given each value. */
  #tree(tree: Buffer, compare: Compare, onValue?: (value: Buffer) => void): void {
    const root = tree.readBigUInt64LE(TREE.root)
    if (root === NO_ROOT) return
    const depth = tree.readUInt16LE(TREE.depth)
    if (depth === 0 || depth > DEEPEST) throw new Damage(`a tree is ${depth} pages deep`)
    const walk: Entries = { compare, onValue, last: undefined, branches: 0, leaves: 0, overflows: 0, entries: 0 }
    this.#subtree(Number(root), depth, walk)
    for (const count of ['branches', 'leaves', 'overflows', 'entries'] as const) {
      const stated = tree.readBigUInt64LE(TREE[count])
      if (BigInt(walk[count]) !== stated)
        throw new Damage(`a tree has ${walk[count]} ${count}, and should have ${stated}`)
    }
  }

  /** The page, and all below it; `depth` pages lead from it to entries. */
  #subtree(number: number, depth: number, walk: Entries, atLeast?: Buffer): void {
    this.#see(number)
    const page = this.#page(number)
    this.#checkHeader(page, number)
    walk[depth > 1 ? 'branches' : 'leaves']++
    const flags = page.readUInt16LE(PAGE.flags)
    if (flags !== (depth === 1 ? LEAF : BRANCH)) throw new Damage(`page ${number} is of another kind`)
    const [lower, upper] = [page.readUInt16LE(PAGE.lower), page.readUInt16LE(PAGE.upper)]
    // Both count from behind the header, as the offsets of nodes do.
    if (lower % 2 !== 0 || lower > upper || upper > PAGE_BYTES - HEADER_BYTES) {
      throw new Damage(`the bounds of page ${number} are wrong`)
    }
    const nodes = lower / 2
    const taken = new Uint32Array(nodes)
    if (nodes === 0) throw new Damage(`page ${number} has ${nodes} entries`)
    for (let i = 0; i < nodes; i++) {
      const offset = page.readUInt16LE(HEADER_BYTES + 2 * i)
      const at = HEADER_BYTES + offset
      if (offset % 2 !== 0 || offset < upper || at + NODE_BYTES > PAGE_BYTES) this.#wrong(number, i)
      const keyAt = at + NODE_BYTES
      const valueAt = keyAt + page.readUInt16LE(at + 6)
      if (valueAt > PAGE_BYTES) this.#wrong(number, i)
      const key = page.subarray(keyAt, valueAt)
      if (depth > 1) {
        if (i > 0 && (walk.last === undefined || walk.compare(walk.last, key) >= 0)) this.#wrong(number, i)
        const child = page.readUInt16LE(at) + page.readUInt16LE(at + 2) * 2 ** 16 + page.readUInt16LE(at + 4) * 2 ** 32
        // The first stands for all that is less than the second, and its key for nothing.
        this.#subtree(child, depth - 1, walk, i === 0 ? atLeast : key)
        taken[i] = span(at, valueAt)
      } else {
        if (i === 0 && atLeast !== undefined && walk.compare(atLeast, key) > 0) this.#wrong(number, i)
        taken[i] = span(at, this.#entry(page, number, i, { at, key, valueAt }, walk))
      }
    }
    // Who removes a node moves those before it by as many bytes as it says that it has.
    taken.sort()
    for (let i = 1; i < nodes; i++) {
      if ((taken[i - 1]! & 0xffff) > taken[i]! >>> 16) throw new Damage(`entries of page ${number} overlap`)
    }
  }

  /** Returns where it ends. */
  #entry(
    page: Buffer,
    number: number,
    i: number,
    { at, key, valueAt }: { readonly at: number; readonly key: Buffer; readonly valueAt: number },
    walk: Entries,
  ): number {
    if (key.length === 0 || (walk.last !== undefined && walk.compare(walk.last, key) >= 0)) this.#wrong(number, i)
    walk.last = key
    walk.entries++
    const valueBytes = page.readUInt32LE(at)
    const flags = page.readUInt16LE(at + 4)
    if (flags === 0) {
      if (valueAt + valueBytes > PAGE_BYTES) this.#wrong(number, i)
      walk.onValue?.(page.subarray(valueAt, valueAt + valueBytes))
      return valueAt + valueBytes
    }
    const end = valueAt + OVERFLOW_REFERENCE_BYTES
    if (flags !== BIG_VALUE || end > PAGE_BYTES) this.#wrong(number, i)
    const first = Number(page.readBigUInt64LE(valueAt))
    const pages = Math.floor((HEADER_BYTES - 1 + valueBytes) / PAGE_BYTES) + 1
    for (let n = 0; n < pages; n++) this.#see(first + n)
    walk.overflows += pages
    const head = this.#page(first)
    this.#checkHeader(head, first)
    const isTheirs =
      head.readUInt16LE(PAGE.flags) === OVERFLOW &&
      head.readUInt32LE(PAGE.pages) === pages &&
      page.readBigUInt64LE(valueAt + 16) === BigInt(pages)
    if (!isTheirs) throw new Damage(`page ${first} is not the value that page ${number} says`)
    if (walk.onValue === undefined) return end
    const value = Buffer.alloc(valueBytes)
    readSync(this.#fd, value, 0, valueBytes, first * PAGE_BYTES + HEADER_BYTES)
    walk.onValue(value)
    return end
  }

  /** LMDB takes a page of a later transaction for one that it is about to write. */
  #checkHeader(page: Buffer, number: number): void {
    if (page.readBigUInt64LE(PAGE.number) !== BigInt(number)) throw new Damage(`page ${number} is another`)
    if (page.readBigUInt64LE(PAGE.transaction) > this.#transaction) {
      throw new Damage(`page ${number} is of a transaction that was never`)
    }
  }

  /** A count, and as many numbers: a page; 0, a place that is empty; or -n, and the first of n pages follows. */
  #freeList(list: Buffer): void {
    const length = list.length % 8 === 0 && list.length > 0 ? Number(list.readBigInt64LE(0)) : -1
    if (length < 0 || 8 * (length + 1) > list.length) throw new Damage('a list of free pages is damaged')
    for (let i = 1; i <= length; i++) {
      let number = Number(list.readBigInt64LE(8 * i))
      let pages = 1
      if (number < 0) {
        pages = -number
        if (++i > length) throw new Damage('a list of free pages is damaged')
        number = Number(list.readBigInt64LE(8 * i))
      }
      if (number === 0 && pages === 1) continue
      if (pages > this.#pages) throw new Damage('a list of free pages is damaged')
      for (let n = 0; n < pages; n++) this.#see(number + n)
    }
  }

  /** Every page is led to once, as one in use or as a free one. */
  #see(number: number): void {
    if (!(number >= 0 && number < this.#pages)) throw new Damage(`something leads to page ${number}, of ${this.#pages}`)
    const bit = 1 << (number & 7)
    if ((this.#seen[number >> 3]! & bit) !== 0) throw new Damage(`two things lead to page ${number}`)
    this.#seen[number >> 3]! |= bit
  }

  #page(number: number): Buffer {
    const page = Buffer.allocUnsafe(PAGE_BYTES)
    const isThere = (number + 1) * PAGE_BYTES <= this.#fileBytes
    if (!isThere || readSync(this.#fd, page, 0, PAGE_BYTES, number * PAGE_BYTES) < PAGE_BYTES) {
      throw new Damage(`page ${number} is not there`)
    }
    return page
  }

  #wrong(number: number, entry: number): never {
    throw new Damage(`entry ${entry} of page ${number} is damaged`)
  }
}

type Compare = (a: Buffer, b: Buffer) => number

interface Entries {
  readonly compare: Compare
  readonly onValue?: ((value: Buffer) => void) | undefined
  /** the key before */
  last: Buffer | undefined
  branches: number
  leaves: number
  overflows: number
  entries: number
}

/** From where to where a node is, as one number, by which they sort. Nodes begin at even offsets. */
function span(start: number, end: number): number {
  return start * 2 ** 16 + end + (end % 2)
}

function compareBytes(a: Buffer, b: Buffer): number {
  return a.compare(b)
}

/** Of u64s in little-endian order. Throws Damage if one is not. */
function compareNumbers(a: Buffer, b: Buffer): number {
  if (a.length !== 8 || b.length !== 8) throw new Damage('a key of the list of free pages is damaged')
  const [x, y] = [a.readBigUInt64LE(), b.readBigUInt64LE()]
  return x < y ? -1 : x > y ? 1 : 0
}
