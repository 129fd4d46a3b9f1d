// A database with Pointproofs as a server holds it: proved by the real module, under a ceremony held here.

import {
  encodeAnswerTo,
  encodeManifest,
  HEADER_BYTES,
  type Manifest,
  POINTPROOF_BYTES,
  type Proofs,
  rowOfBlock,
  rowPlace,
  SUITE_POINTPROOFS,
  SUITE_TAGS,
  updateEntries,
} from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import { loadProving, OPENING_BYTES } from '@pirouette/wasm/prover'
import { buildDatabase, type Contents, type Database } from './database.js'
import { nextEpoch, type Operation } from './epochs.js'

const proving = await loadProving()
const transcripts = new Map<boolean, Uint8Array>()

/** Of one contributor; under `development`, or not. */
function transcriptOf(development: boolean): Uint8Array {
  const known = transcripts.get(development)
  if (known !== undefined) return known
  const begun = proving.ceremony(proving.beginCeremony(development), new Uint8Array(32))
  const transcript = begun.contribute('Ada', new Uint8Array(32).fill(1)).slice(0, -32)
  begun.free()
  transcripts.set(development, transcript)
  return transcript
}

export function buildProved(core: Core, contents: Contents, development = false): Database {
  return proved(core, buildDatabase(core, contents), development)
}

/** The next epoch; `lie`: what is done to the commitments of touched rows behind its update list. */
export function nextProved(
  core: Core,
  before: Database,
  operations: readonly Operation[],
  lie: (rows: Uint8Array) => Uint8Array = rows => rows,
): Database {
  const plain = nextEpoch(core, before, operations)
  return proved(core, plain, plain.manifest.pointproofs!.development, lie)
}

/** All of it is proved anew; in an epoch after the first, the rows that its list touches stand behind that. */
function proved(
  core: Core,
  plain: Database,
  development: boolean,
  lie: (rows: Uint8Array) => Uint8Array = rows => rows,
): Database {
  const { partitions, partitionRecords, recordBytes } = plain.manifest
  const shape = { partitions, partitionRecords, recordBytes }
  const ceremony = proving.ceremony(transcriptOf(development), new Uint8Array(32))
  const prover = proving.prover(ceremony, shape)
  const key = ceremony.key()
  const transcriptHash = ceremony.hash
  ceremony.free()
  const rowBytes = 32 + 48 * Math.ceil(partitionRecords / 256)
  const parts = Array.from({ length: partitions }, (_, q) => {
    const bytes = partitionRecords * recordBytes
    const at = plain.handle.recordsPointer() + q * bytes
    return prover.prove(q, new Uint8Array(core.memory.buffer, at, bytes).slice())
  })
  prover.free()
  const rowLists = Buffer.concat(parts.map(bytes => bytes.subarray(0, rowBytes)))
  const pointproofs = { rowsHash: core.blake3(rowLists), keyHash: core.blake3(key), transcriptHash, development }
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  const blobs = new Map(plain.blobs)
  const entries = plain.blobs.get(hex(plain.manifest.updateListHash))
  const list = entries && Buffer.concat([entries, lie(touchedOf(plain.manifest, entries, rowLists))])
  if (list !== undefined) blobs.set(hex(core.blake3(list)), list)
  const listed = list && { updateListBytes: list.length, updateListHash: core.blake3(list) }
  const manifest = { ...plain.manifest, ...listed, suite: SUITE_POINTPROOFS, pointproofs }
  const manifestBytes = encodeManifest(manifest)
  const manifestHash = core.blake3(manifestBytes)
  blobs.set(hex(pointproofs.rowsHash), rowLists)
  blobs.set(hex(pointproofs.keyHash), key)
  const answer = (vectors: Uint8Array, proofs?: Proofs): Uint8Array => {
    if (proofs !== 'pointproofs') return plain.answer(vectors, proofs)
    const records = plain.handle.answer(vectors, SUITE_TAGS)
    const count = vectors.length / 2 / partitions
    const body = Buffer.concat([records, new Uint8Array(POINTPROOF_BYTES)])
    const header = encodeAnswerTo({ suite: SUITE_POINTPROOFS, count }, manifest, body).subarray(0, HEADER_BYTES)
    const offsets = new Uint16Array(vectors.slice().buffer)
    const openings = Buffer.concat(
      Array.from(offsets, (offset, n) => {
        const at = rowBytes + offset * OPENING_BYTES
        return parts[n % partitions]!.subarray(at, at + OPENING_BYTES)
      }),
    )
    const proof = proving.proveTogether(shape, manifestHash, header, offsets, records, openings)
    return Buffer.concat([records, proof])
  }
  return { ...plain, manifest, manifestBytes, blobs, answer }
}

function touchedOf(manifest: Manifest, list: Uint8Array, rowLists: Uint8Array): Uint8Array {
  const rows = new Set(
    Array.from(updateEntries(list, manifest.recordBytes), ({ index }) => rowOfBlock(index, manifest)),
  )
  const places = Array.from(rows, row => rowPlace(row, manifest))
  return Buffer.concat(places.map(at => rowLists.subarray(at, at + POINTPROOF_BYTES)))
}
