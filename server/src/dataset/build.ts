// Builds a dataset from a data file. The result depends on the file and the options alone, so that two operators with the same file
// get the same manifest and compare its hash.

import { closeSync, openSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { setImmediate as nextTask } from 'node:timers/promises'
import {
  decodeManifest,
  encodeManifest,
  FINGERPRINT_BYTES,
  fromHex,
  isPackaged,
  MAX_PARTITIONS,
  MAX_RECORD_BYTES,
  type Manifest,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { type Core, loadCore } from '@keyhush/wasm'
import { BuildError } from '../base/errors.js'
import { Base } from '../one-server/base.js'
import { directoryFields } from './blocks.js'
import { writeDataset } from './directory.js'
import { type Format, formatOf, type KeyedFormat, readKeyed } from './ingest/index.js'
import { type KeyedRecords, Table } from './ingest/table.js'
import type { ValueEncoding } from './ingest/values.js'
import { allocate, type Filled, idOf, type LayoutOptions, manifestOf, named, place } from './keyed.js'
import { readRecords } from './memory.js'
import { type ProvedDatabase, proofsPackage } from './proof-kinds.js'
import type { Shape } from './shape.js'
import { readShape } from './shape-file.js'
import { marksField, slotMarksOf } from './slot-marks.js'
import { recordBytesView } from './view.js'

const LF = 0x0a
/** Fingerprints whose shard is checked at once. */
const CHECKED_BYTES = 2 ** 20

/** More records than this no layout has. */
const MAX_HEADROOM = 2 ** 32 - 1

export interface BuildOptions extends Omit<LayoutOptions, 'given'> {
  /** the data file; keyed formats: or several */
  readonly data: string | readonly string[]
  /** default: by the file's extension */
  readonly format?: Format | undefined
  /** `bin` only, and required there: ℓ */
  readonly recordBytes?: number | undefined
  /** csv, tsv and jsonl only; default `utf8` */
  readonly valueEncoding?: ValueEncoding | undefined
  /** `pointproofs` only, and required there: the transcript of the ceremony that made the key */
  readonly ceremony?: string | undefined
  /** `pointproofs` only: the receipt of this operator's contribution; default: the transcript's name and `.receipt` */
  readonly receipt?: string | undefined
  /** `pointproofs` only: a command that proves natively, compiled from packages/pointproofs/rust/prover; default: threads of our own */
  readonly prover?: string | undefined
  /** the manifest's expiry, seconds since 1970; default 0: none */
  readonly expires?: number | undefined
  /** makes the public hint for lookups with one server, whose hash the manifest then has; needs `expires`. Default: none */
  readonly oneServer?: boolean | undefined
  /** makes slot marks, with which clients know of most absent keys by themselves; formats with keys only. Default: none */
  readonly filter?: boolean | undefined
  /** file with the manifest this begins a new generation after: the same database, the next epoch */
  readonly succeeds?: string | undefined
  /** what the database id is derived from; default: the manifest */
  readonly name?: string | undefined
  /** file with the shape of a sharded database, of which this is a shard; with `shard` */
  readonly shape?: string | undefined
  /** its number, from 0 */
  readonly shard?: number | undefined
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

/** Which data file to read, and how. */
export interface ListOptions extends Pick<BuildOptions, 'format' | 'valueEncoding' | 'onProgress'> {
  readonly data: string
  /** called if the last line has no end: the file may be a download that was cut off, which a small part of the list does not show */
  readonly onCut?: (() => void) | undefined
}

/** How far a build or a load is. `done` and `total` are bytes or partitions. */
export interface Progress {
  readonly stage:
    | 'reading'
    | 'placing'
    | 'hashing'
    | 'checking the ceremony'
    | 'proving'
    | 'preparing'
    | 'writing'
    | 'comparing'
    | 'publishing'
  readonly done: number
  readonly total: number
}

/** What two operators compare, and what it stands for. */
export interface BuildSummary {
  readonly manifest: Manifest
  /** hex */
  readonly manifestHash: string
  /** hex */
  readonly databaseId: string
  /** records that are not empty: fewer than slots in a shard */
  readonly keys: number
}

/**
 * Builds the data into the directory `out`, which appears whole or not at all. An `out` that holds another dataset is
 * refused unless `force` is set.
 * @throws {BuildError} with file, line and reason, for anything wrong with the data or the options
 * @example
 * const { manifestHash } = await buildDataset({ data: 'animals.csv', out: 'dataset' })
 */
export async function buildDataset(
  options: BuildOptions & { readonly out: string; readonly force?: boolean | undefined },
): Promise<BuildSummary> {
  const core = await loadCore()
  const filled = await fill(core, options)
  try {
    await commit(filled, options)
    const proved = await prove(core, filled, options)
    const marks = options.filter ? await slotMarksOf({ core, database: filled.database }) : undefined
    const described = await describe(core, filled, options, proved, marks)
    const manifest = options.oneServer ? await hinted(core, filled, described, options) : described
    const bytes = encodeManifest(manifest)
    await writeDataset(options.out, bytes, options.force ?? false, async (writeBlob, writeProof) => {
      const { layout, database } = filled
      for (let q = 0; q < layout.partitions; q++) {
        writeBlob(
          database.contentHash(q),
          recordBytesView(core, database, q * layout.partitionBytes, layout.partitionBytes),
        )
        options.onProgress?.({ stage: 'writing', done: q + 1, total: layout.partitions })
        await nextTask()
      }
      if (filled.directory.length > 0) writeBlob(manifest.directoryHash, filled.directory)
      if (marks !== undefined) writeBlob(manifest.slotMarksHash!, marks)
      await proved?.write(writeBlob, writeProof)
    })
    await proved?.forget()
    const [manifestHash, databaseId] = [toHex(core.blake3(bytes)), toHex(manifest.databaseId)]
    return { manifest, manifestHash, databaseId, keys: filled.keys }
  } finally {
    filled.database.free()
    filled.blocks?.free()
    filled.layout.free()
  }
}

/** What proves answers, of a kind that a package brings. */
async function prove(
  core: Core,
  { layout, database }: Filled,
  options: BuildOptions & { readonly out: string },
): Promise<ProvedDatabase | undefined> {
  const { proofs, out, ceremony, receipt, prover: command, onProgress } = options
  if (!isPackaged(proofs) || ceremony === undefined) return undefined
  const { partitionBytes } = layout
  const { prove } = await proofsPackage(proofs)
  const provable = {
    layout,
    contentHash: (q: number) => database.contentHash(q),
    partition: (q: number) => recordBytesView(core, database, q * partitionBytes, partitionBytes).slice(),
  }
  return await prove(core, provable, { out, ceremony, receipt, command, onProgress })
}

async function fill(core: Core, options: BuildOptions): Promise<Filled> {
  const { shape: file, shard } = options
  const shape = file === undefined ? undefined : await readShape(file)
  if (shape !== undefined && shard! >= shape.shards)
    throw new BuildError(`expected --shard from 0 to ${shape.shards - 1}, got ${shard}; give the number of one`)
  const sources = await sourcesOf(options)
  const [{ file: first, format, size }] = sources
  if (format === 'bin') return await fillKeyless(core, options, first, size)
  const table = await readTable(core, options, sources)
  if (shape !== undefined) await checkShard(core, table, shape, shard!)
  options.onProgress?.({ stage: 'placing', done: 0, total: 1 })
  return place(core, table, { ...options, given: shape }, shape === undefined ? first : file)
}

/** Refuses a key of another shard. Throws BuildError with file and line. */
async function checkShard(
  core: Core,
  { fingerprints, fault }: KeyedRecords,
  shape: Shape,
  shard: number,
): Promise<void> {
  const seed = fromHex(shape.directorySeed)
  for (let at = 0; at < fingerprints.length; at += CHECKED_BYTES) {
    const of = core.shardsOf(fingerprints.subarray(at, at + CHECKED_BYTES), seed, shape.shards)
    const foreign = of.findIndex(number => number !== shard)
    if (foreign !== -1) {
      const reason = `expected keys of shard ${shard}, got one of shard ${of[foreign]}; take the parts that \`keyhush split\` wrote with this shape`
      throw fault(at / FINGERPRINT_BYTES + foreign, reason)
    }
    await nextTask()
  }
}

/** Whether the records of a data file have keys. */
export function hasKeys({ data, format = formatOf(data) }: Pick<ListOptions, 'data' | 'format'>): boolean {
  return format !== 'bin'
}

/** The database's id; undefined: it is derived from the data. */
async function knownId(core: Core, { succeeds, name, shape }: BuildOptions): Promise<Uint8Array | undefined> {
  if (succeeds !== undefined) return readSucceeded(await readFile(succeeds), succeeds, shape).databaseId
  return name === undefined ? undefined : idOf(core, name)
}

/** A data file with keys, which are kept. Throws BuildError with file, line and reason. */
export async function readList(core: Core, options: ListOptions): Promise<KeyedRecords> {
  if (!hasKeys(options)) throw new BuildError('expected a file with keys, got bin, which has none', options.data)
  const sources = await sourcesOf(options)
  let last = LF
  const onChunk = (chunk: Uint8Array) => {
    last = chunk.at(-1) ?? last
  }
  const rows = await readTable(core, options, sources, true, onChunk)
  if (last !== LF) options.onCut?.()
  return rows
}

interface DataFile {
  readonly file: string
  readonly format: Format
  readonly size: number
}

/** The files and their formats. Throws BuildError, also for an option that would have no effect. */
async function sourcesOf(options: BuildOptions): Promise<readonly [DataFile, ...DataFile[]]> {
  const files = typeof options.data === 'string' ? [options.data] : options.data
  const sources: DataFile[] = []
  for (const file of files) {
    const size = await sizeOf(file)
    const format = options.format ?? formatOf(file)
    checkOptions(options, format)
    if (format === 'bin' && files.length > 1)
      throw new BuildError(`expected one file with bin, got ${files.length}; join them`, file)
    sources.push({ file, format, size })
  }
  return sources as [DataFile, ...DataFile[]]
}

/** Throws BuildError if there is no such file. */
async function sizeOf(data: string): Promise<number> {
  const file = await stat(data).catch((error: NodeJS.ErrnoException) => {
    throw new BuildError(
      error.code === 'ENOENT'
        ? 'expected a file, got none of that name; name another'
        : `expected a readable file, got ${error.code}; see its permissions`,
      data,
    )
  })
  if (!file.isFile())
    throw new BuildError('expected a file, got a folder, a pipe or a device; write it to a file', data)
  return file.size
}

/** Refuses an option that would have no effect: the operator expected one. */
function checkOptions(options: BuildOptions, format: Format): void {
  const { ceremony, succeeds, name, partitions, pack, headroom, expires, maxValueBytes } = options
  if (isPackaged(options.proofs) !== (ceremony !== undefined)) {
    throw new BuildError('--proofs pointproofs and --ceremony go together: expected both, got one; add the other')
  }
  for (const option of ['receipt', 'prover'] as const) {
    if (options[option] !== undefined && ceremony === undefined)
      throw new BuildError(`--${option}: expected --ceremony too, got none; leave it out, or give both`)
  }
  if ((options.shape === undefined) !== (options.shard === undefined))
    throw new BuildError('--shape and --shard go together: expected both, got one; add the other')
  if (options.shape !== undefined) {
    if (format === 'bin') throw new BuildError('--shape: expected a format with keys, got bin; give another --format')
    const { proofs, oneServer, filter } = options
    const decided = { partitions, pack, headroom, 'max-value-bytes': maxValueBytes, proofs, filter }
    const [other] =
      Object.entries({ ...decided, 'one-server': oneServer }).find(([, value]) => value !== undefined) ?? []
    if (other !== undefined)
      throw new BuildError(
        `--${other}: expected --shape alone to decide what a shard has, got both; leave --${other} out`,
      )
  }
  if (succeeds !== undefined && name !== undefined) {
    throw new BuildError('expected --name or --succeeds, got both; leave --name out: a successor keeps the database id')
  }
  const pointless = (option: string, value: unknown) => {
    if (value !== undefined) throw new BuildError(`--${option}: expected another format, got ${format}; leave it out`)
  }
  if (format === 'bin') {
    pointless('value-encoding', options.valueEncoding)
    pointless('max-value-bytes', maxValueBytes)
    pointless('filter', options.filter || undefined)
    if (options.recordBytes === undefined)
      throw new BuildError('expected --record-bytes with bin, got none; give the bytes of one record')
    checkRange('record-bytes', options.recordBytes, 1, MAX_RECORD_BYTES)
  } else {
    pointless('record-bytes', options.recordBytes)
    if (format === 'txt') pointless('value-encoding', options.valueEncoding)
  }
  if (options.oneServer && (!expires || options.proofs === 'tags')) {
    const [wanted, came] = expires ? ['proofs other than tags', 'tags'] : ['--expires', 'none']
    throw new BuildError(`--one-server: expected ${wanted}, got ${came}; see docs/operations/one-server.md`)
  }
  checkRange('partitions', partitions, 1, MAX_PARTITIONS)
  checkRange('pack', pack, 1, MAX_RECORD_BYTES)
  checkRange('headroom', headroom, 0, MAX_HEADROOM)
  checkRange('expires', expires, 0, Number.MAX_SAFE_INTEGER)
  checkRange('max-value-bytes', maxValueBytes, 0, MAX_RECORD_BYTES - FINGERPRINT_BYTES - 2)
}

function checkRange(option: string, value: number | undefined, min: number, max: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= min && value <= max)) return
  throw new BuildError(`--${option}: expected a whole number from ${min} to ${max}, got ${value}; give another`)
}

/** `bin`: the file is the records, one after the other. */
async function fillKeyless(core: Core, options: BuildOptions, data: string, size: number): Promise<Filled> {
  const recordBytes = options.recordBytes!
  if (size === 0) throw new BuildError('expected records, got a file that is empty; name another', data)
  if (size % recordBytes !== 0) {
    throw new BuildError(
      `expected a multiple of --record-bytes ${recordBytes}, got ${size} bytes; is the file whole?`,
      data,
    )
  }
  const records = size / recordBytes
  const shape = { recordBytes, valueBytes: recordBytes, keyed: false, variable: false }
  const { layout, database } = allocate(core, options, records, recordBytes, data)
  const fd = openSync(data, 'r')
  try {
    for (let done = 0; done < size; done += layout.partitionBytes) {
      options.onProgress?.({ stage: 'reading', done, total: size })
      if (!readRecords(core, database, done, Math.min(layout.partitionBytes, size - done), fd)) {
        throw new BuildError(`expected ${size} bytes, got fewer while it was read; build again`, data)
      }
      await nextTask()
    }
  } finally {
    closeSync(fd)
  }
  const directory = new Uint8Array()
  return {
    shape,
    records,
    keys: records,
    layout,
    database,
    directory,
    directoryFields: directoryFields(core, undefined, directory, undefined),
    blocks: undefined,
  }
}

/** Every other format. */
async function readTable(
  core: Core,
  options: BuildOptions,
  sources: readonly DataFile[],
  keepsKeys?: boolean,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<KeyedRecords> {
  const { valueEncoding = 'utf8', maxValueBytes, onProgress } = options
  const table = new Table(core, maxValueBytes, keepsKeys, await knownId(core, options))
  const total = sources.reduce((sum, { size }) => sum + size, 0)
  let before = 0
  for (const { file, format, size } of sources) {
    let done = 0
    table.begin(file)
    await readKeyed(file, format as KeyedFormat, valueEncoding, table, chunk => {
      done += chunk.length
      onProgress?.({ stage: 'reading', done: before + done, total })
      onChunk?.(chunk)
    })
    if (done !== size) {
      throw new BuildError(
        `expected a file that stays as it is, got ${done} bytes of one that had ${size}; wait until it is written, and run it again`,
        file,
      )
    }
    before += size
  }
  return table.finish()
}

/** Hashes every partition. */
async function commit({ layout, database }: Filled, { onProgress }: BuildOptions): Promise<void> {
  const { partitions } = layout
  for (let q = 0; q < partitions; q++) {
    database.commit(q)
    onProgress?.({ stage: 'hashing', done: q + 1, total: partitions })
    await nextTask()
  }
}

/** The manifest of a first epoch, of a database that has been hashed. */
async function describe(
  core: Core,
  filled: Filled,
  options: BuildOptions,
  proved: ProvedDatabase | undefined,
  marks: Uint8Array | undefined,
): Promise<Manifest> {
  const unnamed = manifestOf(filled, { proofs: options.proofs, expires: options.expires })
  const proving: Manifest = { ...unnamed, pointproofs: proved?.fields, ...(await marksField(core, marks)) }
  if (options.succeeds !== undefined) {
    const bytes = await readFile(options.succeeds)
    const { databaseId, generation, epoch } = readSucceeded(bytes, options.succeeds, options.shape)
    const next = { generation: generation + 1, epoch: epoch + 1, previousManifest: core.blake3(bytes) }
    // A shard has an id of its own.
    return options.shape === undefined ? { ...proving, ...next, databaseId } : named(core, { ...proving, ...next })
  }
  return named(core, proving, options.name)
}

/** With the hash of a public hint that is made of these records. Throws BuildError. */
async function hinted(core: Core, from: Filled, manifest: Manifest, { onProgress }: BuildOptions): Promise<Manifest> {
  onProgress?.({ stage: 'preparing', done: 0, total: 1 })
  try {
    const base = new Base(core, manifest, from.directory)
    base.hintHash = core.blake3(await base.hint({ core, ...from }))
    return { ...manifest, oneServer: base.fields }
  } catch (error) {
    throw new BuildError(`--one-server: ${(error as Error).message}`)
  }
}

function readSucceeded(bytes: Uint8Array, file: string, shape: string | undefined): Manifest {
  try {
    const manifest = decodeManifest(bytes)
    const [expected, got] = [shape !== undefined, manifest.shards !== undefined].map(of =>
      of ? 'a coordinator' : 'one server',
    )
    if (expected === got) return manifest
    throw new BuildError(
      `--succeeds: expected a manifest of ${expected}, got one of ${got}; take it from /v1/manifest there`,
      file,
    )
  } catch (error) {
    if (error instanceof WireError) throw new BuildError(`expected a manifest, got another: ${error.message}`, file)
    throw error
  }
}
