// Splits a list by the shards of its keys: a map over its files, which may run in many processes at once.

import { createHash, type Hash, randomUUID } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, renameSync, rmdirSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fromHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import { flushDirectory, flushFiles } from './directory.js'
import { type KeyedFormat, readKeyed } from './ingest/index.js'
import { nameOf, type TextSource } from './ingest/lines.js'
import { faultOfKey, Hashing, type Records } from './ingest/table.js'
import type { ValueEncoding } from './ingest/values.js'
import { faultOfValue, type Shape } from './shape.js'

/** Records that wait for their shards have about so many bytes at most. */
const WAITING_BYTES = 2 ** 20
/** What is written to a part at once. */
const WRITTEN_BYTES = 2 ** 16
const HEADER = Buffer.from('key,value\n')

/**
 * Writes the records of a source to `<out>/<shard>/<hash of the file>.csv`, each file whole or not at all. So another run with the same source
 * writes the same files. Returns the number of records. Throws BuildError.
 */
export async function splitSource(
  core: Core,
  source: TextSource,
  options: {
    readonly shape: Shape
    readonly out: string
    readonly format: KeyedFormat
    readonly valueEncoding: ValueEncoding
  },
): Promise<number> {
  const scratch = join(options.out, `.split-${randomUUID()}`)
  const isNew = !existsSync(options.out)
  mkdirSync(scratch, { recursive: true })
  const parts = new Parts(core, nameOf(source), scratch, options)
  try {
    await readKeyed(source, options.format, options.valueEncoding, parts)
    const names = parts.finish()
    await flushFiles([...names.keys()].map(shard => join(scratch, `${shard}`)))
    for (const [shard, name] of names) {
      const folder = join(options.out, `${shard}`)
      mkdirSync(folder, { recursive: true })
      renameSync(join(scratch, `${shard}`), join(folder, name))
      await flushDirectory(folder)
    }
    await flushDirectory(options.out)
    return parts.records
  } finally {
    parts.close()
    rmSync(scratch, { recursive: true })
    if (isNew) removeIfEmpty(options.out)
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {} // it has parts, or another process writes there
}

interface PartFile {
  readonly fd: number
  readonly hash: Hash
  waiting: Buffer[]
  bytes: number
}

/** The files of one source in the making, one a shard. */
class Parts implements Records {
  readonly #source: string
  readonly #folder: string
  readonly #shape: Shape
  readonly #encoding: ValueEncoding
  readonly #hashing: Hashing
  readonly #parts = new Map<number, PartFile>()
  #lines: Buffer[] = []
  #bytes = 0
  records = 0

  constructor(
    core: Core,
    source: string,
    folder: string,
    { shape, valueEncoding }: { readonly shape: Shape; readonly valueEncoding: ValueEncoding },
  ) {
    this.#source = source
    this.#folder = folder
    this.#shape = shape
    this.#encoding = valueEncoding
    const seed = fromHex(shape.directorySeed)
    this.#hashing = new Hashing(core, prints => this.#distribute(core.shardsOf(prints, seed, shape.shards)))
  }

  add(key: Uint8Array, value: Uint8Array, line: number): void {
    const reason = faultOfKey(key) ?? faultOfValue(this.#shape, value.length)
    if (reason !== undefined) throw new BuildError(reason, this.#source, line)
    const text = this.#encoding === 'utf8' ? value : Buffer.from(Buffer.from(value).toString(this.#encoding))
    const written = Buffer.concat([quoted(key), COMMA, quoted(text), LF])
    this.#lines.push(written)
    this.#bytes += written.length
    this.records++
    this.#hashing.add(key)
    if (this.#bytes >= WAITING_BYTES) this.#hashing.finish()
  }

  /** The name of each shard's file, which is whole now. */
  finish(): Map<number, string> {
    this.#hashing.finish()
    for (const part of this.#parts.values()) write(part)
    return new Map([...this.#parts].map(([shard, { hash }]) => [shard, `${hash.digest('hex')}.csv`]))
  }

  close(): void {
    for (const { fd } of this.#parts.values()) closeSync(fd)
  }

  #distribute(shards: Uint8Array): void {
    for (const [i, line] of this.#lines.entries()) {
      const shard = shards[i]!
      const part = this.#parts.get(shard) ?? this.#begin(shard)
      part.waiting.push(line)
      part.bytes += line.length
      if (part.bytes >= WRITTEN_BYTES) write(part)
    }
    this.#lines = []
    this.#bytes = 0
  }

  #begin(shard: number): PartFile {
    const part = {
      fd: openSync(join(this.#folder, `${shard}`), 'wx'),
      hash: createHash('sha256'),
      waiting: [HEADER],
      bytes: 0,
    }
    this.#parts.set(shard, part)
    return part
  }
}

function write(part: PartFile): void {
  const bytes = Buffer.concat(part.waiting)
  part.hash.update(bytes)
  for (let done = 0; done < bytes.length; ) done += writeSync(part.fd, bytes, done)
  part.waiting = []
  part.bytes = 0
}

const [COMMA, LF] = [Buffer.from(','), Buffer.from('\n')]

/** A field as csv has it. */
function quoted(text: Uint8Array): Uint8Array {
  const field = Buffer.from(text.buffer, text.byteOffset, text.length)
  return /[",\r\n]/.test(field.toString('latin1'))
    ? Buffer.from(`"${field.toString('latin1').replaceAll('"', '""')}"`, 'latin1')
    : field
}
