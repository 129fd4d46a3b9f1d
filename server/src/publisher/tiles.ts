// A log's folder for any static host (c2sp.org/tlog-tiles): its entries, the hashes of its tree in tiles of 256, and the checkpoint.

import * as fs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { equalBytes, HASH_BYTES } from '@keyhush/protocol'
import { type Checkpoint, leafHash, type Path, rootOf } from '@keyhush/protocol/log'
import { PublishError } from '../base/errors.js'
import { FOR_ALL, makeShown, writeWhole } from '../base/whole-file.js'
import { fetched } from './server.js'

const WIDTH = 256
/** of a file that is read from a URL */
const MOST_BYTES = 64 * 1024
const TIMEOUT_MILLISECONDS = 30_000

/** Reads a file of the log; undefined: there is none. */
type Read = (name: string) => Promise<Uint8Array | undefined>

/** A log's files, wherever they are. */
export class ReadTiles {
  readonly #read: Read

  constructor(read: Read) {
    this.#read = read
  }

  /** Those of a folder, or below a URL. Reading throws PublishError if that does not reply. */
  static at(place: string): ReadTiles {
    return new ReadTiles(name => (/^https?:\/\//.test(place) ? fileAt(place, name) : readIn(place, name)))
  }

  /** Undefined: there is none. */
  async checkpoint(): Promise<string | undefined> {
    const bytes = await this.#read('checkpoint')
    return bytes && Buffer.from(bytes).toString()
  }

  /** The hashes of the first `size` leaves; fewer: files are missing. */
  async leaves(size: number): Promise<Path> {
    const hashes: Uint8Array[] = []
    while (hashes.length < size) {
      const width = Math.min(WIDTH, size - hashes.length)
      const tile = await this.#read(nameOf('0', hashes.length / WIDTH, width))
      if (tile?.length !== width * HASH_BYTES) break
      for (let at = 0; at < tile.length; at += HASH_BYTES) hashes.push(tile.subarray(at, at + HASH_BYTES))
    }
    return hashes
  }
}

/** A log's folder. */
export class Tiles extends ReadTiles {
  readonly #folder: string
  /** parts of tiles that the next checkpoint does without */
  #over: string[] = []

  constructor(folder: string) {
    super(name => readIn(folder, name))
    this.#folder = folder
  }

  /** What it is signed for must be there. After a crash it is there whole, or as it was. */
  async putCheckpoint(note: string): Promise<void> {
    await this.#put('checkpoint', Buffer.from(note))
    for (const parts of this.#over.splice(0)) await fs.rm(join(this.#folder, parts), { recursive: true, force: true })
  }

  /** The leaves of this checkpoint. Throws PublishError that names the file, unless all of its files are there as they were written. */
  async read({ size, root }: Checkpoint): Promise<Path> {
    const leaves = await this.leaves(size)
    const isWhole = leaves.length === size && equalBytes(rootOf(leaves), root)
    for (let start = 0; start < size; start += WIDTH) {
      const part = leaves.slice(start, start + WIDTH)
      const width = Math.min(WIDTH, size - start)
      const hashes = leavesOf(await readIn(this.#folder, nameOf('entries', start / WIDTH, width)))
      if (hashes.length === width && areEqual(hashes, part)) continue
      const isBundle = isWhole || hashes.length !== width
      throw this.#damaged(nameOf(isBundle ? 'entries' : '0', start / WIDTH, width))
    }
    if (!isWhole) throw this.#damaged('tile')
    for (const { name, hashes } of tilesOf(leaves)) {
      const tile = await readIn(this.#folder, name)
      if (tile === undefined || !equalBytes(tile, Buffer.concat(hashes))) throw this.#damaged(name)
    }
    return leaves
  }

  /** Adds entries behind these leaves. Resolves to all leaves once the files are on disk. Throws PublishError if those entries are not there. */
  async append(leaves: Path, entries: readonly Uint8Array[]): Promise<Path> {
    const all = [...leaves, ...entries.map(leafHash)]
    const first = leaves.length - (leaves.length % WIDTH)
    let before: Buffer = Buffer.alloc(0)
    if (leaves.length > first) {
      const name = nameOf('entries', first / WIDTH, leaves.length - first)
      before = (await readIn(this.#folder, name)) ?? before
      if (!areEqual(leavesOf(before), leaves.slice(first))) throw this.#damaged(name)
    }
    const packed = entries.map(entry => Buffer.of(entry.length >> 8, entry.length & 255, ...entry))
    for (let start = first; start < all.length; start += WIDTH) {
      const [from, to] = [start, start + WIDTH].map(index => Math.max(0, index - leaves.length))
      const bundle = Buffer.concat([...(start === first ? [before] : []), ...packed.slice(from, to)])
      await this.#putTile(nameOf('entries', start / WIDTH, Math.min(WIDTH, all.length - start)), bundle)
    }
    for (const { name, level, end, hashes } of tilesOf(all)) {
      const old = Math.floor(leaves.length / WIDTH ** level)
      if (end > old) await this.#putTile(name, Buffer.concat(hashes))
    }
    return all
  }

  async #putTile(name: string, bytes: Uint8Array): Promise<void> {
    await this.#put(name, bytes)
    if (!name.includes('.p/')) this.#over.push(`${name}.p`)
  }

  #damaged(name: string): PublishError {
    return new PublishError(
      `${join(this.#folder, name)}: expected what the log's checkpoint has, got another file or none. No checkpoint was signed. Fetch it ` +
        'from your host, or restore the newest backup',
      4,
    )
  }

  async #put(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.#folder, name)
    await makeShown(dirname(path))
    await writeWhole(path, bytes, FOR_ALL)
  }
}

async function readIn(folder: string, name: string): Promise<Buffer | undefined> {
  return await fs.readFile(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return undefined
  })
}

async function fileAt(url: string, name: string): Promise<Uint8Array | undefined> {
  const from = `${url.replace(/\/+$/, '')}/${name}`
  try {
    const { response, bytes } = await fetched(from, {}, MOST_BYTES, TIMEOUT_MILLISECONDS)
    if (response.status === 404) return undefined
    if (response.status === 200) return bytes
    throw new Error(`status ${response.status}`)
  } catch (error) {
    const { cause, message } = error as Error
    throw new PublishError(
      `${from}: expected a file of the log, got none (${cause instanceof Error ? cause.message : message})`,
      3,
    )
  }
}

interface Tile {
  readonly name: string
  readonly level: number
  /** hashes of its level as far as this */
  readonly end: number
  readonly hashes: Path
}

/** The tiles of a tree. */
function* tilesOf(leaves: Path): Generator<Tile> {
  for (let [level, row] = [0, leaves]; row.length > 0; level++) {
    const roots: Uint8Array[] = []
    for (let start = 0; start < row.length; start += WIDTH) {
      const hashes = row.slice(start, start + WIDTH)
      if (hashes.length === WIDTH) roots.push(rootOf(hashes))
      const name = nameOf(`${level}`, start / WIDTH, hashes.length)
      yield { name, level, end: start + hashes.length, hashes }
    }
    row = roots
  }
}

/** The leaves of a bundle of entries; another number: it is cut, or not there. */
function leavesOf(bundle: Buffer = Buffer.alloc(0)): Path {
  const hashes: Uint8Array[] = []
  for (let at = 0; at < bundle.length; ) {
    const end = at + 2 + (bundle.length > at + 1 ? bundle.readUInt16BE(at) : 0)
    if (end > bundle.length) return []
    hashes.push(leafHash(bundle.subarray(at + 2, end)))
    at = end
  }
  return hashes
}

function areEqual(some: Path, others: Path): boolean {
  return some.length === others.length && some.every((hash, i) => equalBytes(hash, others[i]!))
}

/** `tile/0/x001/234.p/7`: the tile 1234 of level 0, with seven hashes. */
function nameOf(level: string, number: number, width: number): string {
  const digits = `${Math.floor(number)}`
  const parts = digits.padStart(3 * Math.ceil(digits.length / 3), '0').match(/\d{3}/g)!
  const path = parts.map((part, i) => (i < parts.length - 1 ? `x${part}` : part)).join('/')
  return `tile/${level}/${path}${width < WIDTH ? `.p/${width}` : ''}`
}
