// Proving a database (docs/protocol.md, Pointproofs): its row lists, and the openings of all records. It takes about four
// milliseconds a record and core, so it is done in threads, and what is finished is kept in a folder beside the dataset until
// all is: an interrupted build goes on from there. The result follows from the records and the transcript alone.

import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { Worker } from 'node:worker_threads'
import {
  equalBytes,
  type Manifest,
  POINTPROOFS_ROW_RECORDS,
  type PointproofsFields,
  rowListsBytes,
  toHex,
} from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import type { Ceremony, Shape } from '@pirouette/wasm/pointproofs'
import { loadProving, OPENING_BYTES } from '@pirouette/wasm/prover'
import { readCeremony, readReceipt } from '../ceremony/transcript.js'
import { BuildError } from './errors.js'
import type { ProverData, ProverTask } from './prover-thread.js'

/** That a thread is worth: before its first row it makes tables, which takes as long as some rows do. */
const ROWS_A_THREAD = 4

/** A ceremony's transcript, and what shows that this operator has contributed to it. Both are files. */
export interface CeremonyFiles {
  readonly ceremony: string
  /** default: the transcript's name and `.receipt` */
  readonly receipt?: string | undefined
}

/** What a database is proved with. */
export interface Setup {
  readonly transcript: Uint8Array
  readonly key: Uint8Array
  /** what provers are made of */
  readonly proving: Uint8Array
  readonly fields: Omit<PointproofsFields, 'rowsHash'>
}

/** Row lists, one behind the other, and openings of a partition. */
export interface ProvedDatabase {
  readonly setup: Setup
  readonly rowLists: Uint8Array
  /** 96 bytes a record */
  openings(q: number): Promise<Uint8Array>
  /** takes away what was kept in case of an interruption */
  forget(): Promise<void>
}

/**
 * Reads a transcript that this operator has contributed to. Throws CeremonyError if it does not hold, and BuildError if the
 * contribution is not in it: all the others together could know how to forge.
 */
export async function readSetup(core: Core, { ceremony: file, receipt }: CeremonyFiles): Promise<Setup> {
  const receiptFile = receipt ?? `${file}.receipt`
  const mine = await readReceipt(receiptFile)
  const ceremony: Ceremony = await readCeremony(file)
  try {
    if (!ceremony.has(mine)) {
      const reason = `the contribution of ${receiptFile} is not in it: whoever made it could forge; do not use it`
      throw new BuildError(reason, file)
    }
    const key = ceremony.key()
    const { development, hash: transcriptHash } = ceremony
    const transcript = await readFile(file)
    if (!equalBytes(core.blake3(transcript), transcriptHash)) throw new BuildError('it has changed meanwhile', file)
    const proving = (await loadProving()).setup(ceremony)
    return { transcript, key, proving, fields: { keyHash: core.blake3(key), transcriptHash, development } }
  } finally {
    ceremony.free()
  }
}

/** Q partitions of blocks, as proofs have to do with them. */
export function shapeOf(
  layout: Pick<Manifest, 'partitions' | 'partitionRecords' | 'blockRecords' | 'recordBytes'>,
): Shape {
  const { partitions, partitionRecords, blockRecords, recordBytes } = layout
  return { partitions, partitionRecords: partitionRecords / blockRecords, recordBytes: recordBytes * blockRecords }
}

/**
 * Proves all partitions. `contentHash` and `partition` give those of partition q, the latter a copy; `out` is what the folder
 * beside is named after.
 */
export async function proveDatabase(
  core: Core,
  setup: Setup,
  shape: Shape,
  from: { readonly contentHash: (q: number) => Uint8Array; readonly partition: (q: number) => Uint8Array },
  out: string,
  onProgress: (done: number) => void,
): Promise<ProvedDatabase> {
  const folder = `${resolve(out)}.proving`
  await mkdir(folder, { recursive: true })
  const { partitions, partitionRecords } = shape
  const rowBytes = rowListsBytes({ ...shape, blockRecords: 1 }) / partitions
  const bytes = rowBytes + partitionRecords * OPENING_BYTES
  // Named by all that it follows from.
  const pathOf = (q: number) => {
    const numbers = Buffer.from([q, partitions, partitionRecords, shape.recordBytes].join())
    return join(folder, toHex(core.blake3(Buffer.concat([setup.fields.keyHash, from.contentHash(q), numbers]))))
  }
  const rowLists = new Uint8Array(partitions * rowBytes)
  const missing: number[] = []
  for (let q = 0; q < partitions; q++) {
    const kept = await readSealed(core, pathOf(q), bytes)
    if (kept === undefined) missing.push(q)
    else rowLists.set(kept.subarray(0, rowBytes), q * rowBytes)
  }
  let done = partitions - missing.length
  onProgress(done)
  const prove = async () => {
    let thread: ProverThread | undefined
    try {
      for (let q = missing.shift(); q !== undefined; q = missing.shift()) {
        thread ??= new ProverThread({ setup: setup.proving, shape })
        const proved = await thread.do({ q, partition: from.partition(q) })
        rowLists.set(proved.subarray(0, rowBytes), q * rowBytes)
        await writeSealed(core, pathOf(q), proved)
        onProgress(++done)
      }
    } catch (error) {
      missing.length = 0
      throw error
    } finally {
      await thread?.end()
    }
  }
  const rows = missing.length * Math.ceil(partitionRecords / POINTPROOFS_ROW_RECORDS)
  const threads = Math.min(availableParallelism(), Math.ceil(rows / ROWS_A_THREAD))
  const results = await Promise.allSettled(Array.from({ length: threads }, prove))
  for (const result of results) if (result.status === 'rejected') throw result.reason
  return {
    setup,
    rowLists,
    async openings(q) {
      const proved = await readSealed(core, pathOf(q), bytes)
      if (proved === undefined) throw new BuildError('what was kept there while proving has changed', folder)
      return proved.subarray(rowBytes)
    },
    forget: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Does one thing at a time. */
export class ProverThread {
  readonly #worker: Worker
  #settle: { resolve(proved: Uint8Array): void; reject(error: Error): void } | undefined

  /** `onExit` hears once that it is of no more use. */
  constructor(workerData: ProverData, onExit: () => void = () => {}) {
    this.#worker = new Worker(new URL('./prover-thread.js', import.meta.url), { workerData, execArgv: [] })
    this.#worker.on('message', proved => this.#settle?.resolve(proved))
    this.#worker.on('error', error => this.#settle?.reject(error as Error))
    this.#worker.on('exit', () => {
      onExit()
      this.#settle?.reject(new Error('a thread that proves has ended'))
    })
  }

  do(task: ProverTask): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#worker.postMessage(task)
    })
  }

  async end(): Promise<void> {
    await this.#worker.terminate()
  }
}

const HASH_BYTES = 32

/** Bytes behind their BLAKE3; undefined if the file is not there, or not whole. */
export async function readSealed(core: Core, path: string, bytes: number): Promise<Uint8Array | undefined> {
  const sealed = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return new Uint8Array()
    throw error
  })
  if (sealed.length !== HASH_BYTES + bytes) return undefined
  const content = sealed.subarray(HASH_BYTES)
  return equalBytes(core.blake3(content), sealed.subarray(0, HASH_BYTES)) ? content : undefined
}

export function sealed(core: Core, content: Uint8Array): Uint8Array {
  return Buffer.concat([core.blake3(content), content])
}

async function writeSealed(core: Core, path: string, content: Uint8Array): Promise<void> {
  const part = `${path}.${process.pid}.part`
  await writeFile(part, sealed(core, content))
  await rename(part, path)
}
