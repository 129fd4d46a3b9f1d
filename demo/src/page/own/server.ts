// A server of the visitor's own database, in the browser. It builds the database from a CSV file as `keyhush build` does, and
// answers instant lookups with the same core as `keyhush serve`. Each of two workers runs one (worker.ts).

import {
  decodeInstantQuery,
  encodeInstantAnswer,
  encodeManifest,
  equalBytes,
  FORMAT,
  INSTANT_PATH,
  type Info,
  type Manifest,
  toHex,
} from '@keyhush/protocol'
import { BuildError, manifestOf, named, type Placed, place } from '@keyhush/server/dataset'
import type { Core, CoreError } from '@keyhush/wasm/server'
import { type CsvRecords, readCsv } from './csv.js'

/** limit for all values together, each counted as long as the longest */
const MOST_ROOM_BYTES = 128_000_000

/** Progress of a build: the share of a stage, from 0 to 1. */
export interface Stage {
  readonly stage: 'reading' | 'placing' | 'hashing'
  readonly done: number
}

/** A summary of what was built. */
export interface Built {
  readonly records: number
  readonly bytes: number
  /** hex */
  readonly manifestHash: string
  /** two keys of the file, to try */
  readonly examples: readonly string[]
}

/** Why a file cannot be a database. */
export interface Fault {
  readonly reason: string
  /** from 1 */
  readonly line: number | undefined
  /** the file is right, but the browser has too little memory for it */
  readonly memory: boolean
}

/** The fault behind any error of a build. */
export function faultOf(error: unknown): Fault {
  // Memory can run out at the start, or within the core, which then reports it or traps.
  const { message } = error instanceof Error ? error : new Error(String(error))
  const stopped = error instanceof RangeError || error instanceof WebAssembly.RuntimeError
  if (stopped || /memory could not be had|out of memory/i.test(message)) {
    const reason = 'it is built twice here, and this browser has not the memory for that; a smaller file may do'
    return { reason, line: undefined, memory: true }
  }
  if (error instanceof BuildError) return { reason: error.reason, line: error.line, memory: false }
  return { reason: message, line: undefined, memory: false }
}

export interface Reply {
  readonly status: number
  readonly body: Uint8Array<ArrayBuffer>
}

export class OwnServer {
  readonly #core: Core
  readonly #placed: Placed
  readonly #manifest: Manifest
  readonly built: Built

  private constructor(core: Core, placed: Placed, manifest: Manifest, examples: readonly string[]) {
    this.#core = core
    this.#placed = placed
    this.#manifest = manifest
    const { records, layout } = placed
    const manifestHash = toHex(core.blake3(encodeManifest(manifest)))
    this.built = { records, bytes: layout.partitions * layout.partitionBytes, manifestHash, examples }
  }

  /** Throws BuildError, with line and reason. */
  static build(core: Core, csv: Uint8Array, onStage: (stage: Stage) => void): OwnServer {
    const table = readCsv(core, csv, bytes => onStage({ stage: 'reading', done: bytes / csv.length }))
    checkRoom(table)
    onStage({ stage: 'placing', done: 0 })
    const placed = place(core, table, {})
    const { partitions } = placed.layout
    for (let q = 0; q < partitions; q++) {
      placed.database.commit(q)
      onStage({ stage: 'hashing', done: (q + 1) / partitions })
    }
    return new OwnServer(core, placed, named(core, manifestOf(placed, {})), table.examples)
  }

  /** Replies as a server does over HTTP (docs/protocol.md). */
  reply(path: string, body: Uint8Array | undefined): Reply {
    const [route] = path.split('?')
    if (route === '/v1/manifest') return ok(encodeManifest(this.#manifest))
    if (route === '/v1/info') return ok(new TextEncoder().encode(JSON.stringify(this.#info())))
    if (route === INSTANT_PATH && body !== undefined) return this.#answer(body)
    return refused(404, 'not_found', 'there is no such path')
  }

  #info(): Info {
    const { generation, epoch } = this.#manifest
    return {
      format: FORMAT,
      software: 'keyhush in a worker',
      epochs: [{ generation, epoch, manifest: this.built.manifestHash }],
      offers: {
        ...{ proofs: ['merkle', 'tags'], updates: false, push: false, fence: false },
        ...{ instant: true, single: false, history: 0 },
      },
      signatures: [],
    }
  }

  #answer(body: Uint8Array): Reply {
    const { of, databaseId, generation, epoch, count, queries } = decodeInstantQuery(body)
    const { manifest, database } = { manifest: this.#manifest, database: this.#databaseOf(of) }
    const isOurs = equalBytes(databaseId, manifest.databaseId)
    if (!isOurs || generation !== manifest.generation || epoch !== manifest.epoch) {
      return refused(404, 'epoch_unknown', 'this database has one version')
    }
    const { layout } = database
    const each = layout.instantRequestBytes
    try {
      this.#core.checkInstantQueries(layout, queries)
    } catch (error) {
      const { code, message } = error as CoreError
      if (code === 'length' || code === 'query') return refused(400, 'bad_request', message)
      throw error
    }
    if (queries.length !== count * each) return refused(400, 'bad_request', 'another length than its count says')
    const answers = new Uint8Array(count * layout.instantAnswerBytes)
    for (let k = 0; k < count; k++) {
      const pass = this.#core.newInstantPass(database, queries.slice(k * each, (k + 1) * each), Uint8Array.of(0))
      while (pass.step(database));
      answers.set(pass.finish(database), k * layout.instantAnswerBytes)
      pass.free()
    }
    return ok(encodeInstantAnswer(manifest, of, count, answers))
  }

  #databaseOf(of: 'records' | 'directory') {
    return of === 'records' ? this.#placed.database : this.#placed.blocks!
  }
}

/** Refuses long values: every record takes as much as the longest one, so that a small file can need gigabytes. */
function checkRoom({ records, valueEnds, lines }: CsvRecords): void {
  const lengths = Array.from({ length: records }, (_, i) => valueEnds[i]! - (i === 0 ? 0 : valueEnds[i - 1]!))
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0)
  if (records * longest <= MOST_ROOM_BYTES) return
  throw new BuildError(
    `the value has ${longest} bytes, and each of ${records} records takes as much as this one; all of them may take ` +
      `${MOST_ROOM_BYTES / 1e6} MB here`,
    undefined,
    lines[lengths.indexOf(longest)],
  )
}

const ok = (body: Uint8Array): Reply => ({ status: 200, body: new Uint8Array(body) })

function refused(status: number, code: string, message: string): Reply {
  return { status, body: new TextEncoder().encode(JSON.stringify({ code, message })) }
}
