// A database with Pointproofs as a server holds it: proved by who knows α (reference.ts), which takes no openings. What servers
// do instead is in ../server.all.test.ts, and both together in ../end-to-end.all.test.ts.

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
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { buildDatabase, type Contents, type Database } from '../../../client/test/support/database.js'
import { nextEpoch, type Operation } from '../../../client/test/support/epochs.js'
import { Ceremony, prove, rowLists } from './reference.js'

const ceremonies = new Map<boolean, Ceremony>()

/** Of one contributor; under `development`, or not. */
function ceremonyOf(development: boolean): Ceremony {
  const known = ceremonies.get(development)
  if (known !== undefined) return known
  const ceremony = new Ceremony(development)
  ceremony.contribute('Ada', new Uint8Array(32).fill(1))
  ceremonies.set(development, ceremony)
  return ceremony
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
  const ceremony = ceremonyOf(development)
  const key = ceremony.key()
  const keyHash = core.blake3(key)
  const at = plain.handle.recordsPointer()
  const database = new Uint8Array(core.memory.buffer, at, partitions * partitionRecords * recordBytes).slice()
  const lists = rowLists(ceremony.alpha, keyHash, shape, database)
  const transcriptHash = core.blake3(ceremony.transcript())
  const pointproofs = { rowsHash: core.blake3(lists), keyHash, transcriptHash, development }
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  const blobs = new Map(plain.blobs)
  const entries = plain.blobs.get(hex(plain.manifest.updateListHash))
  const list = entries && Buffer.concat([entries, lie(touchedOf(plain.manifest, entries, lists))])
  if (list !== undefined) blobs.set(hex(core.blake3(list)), list)
  const listed = list && { updateListBytes: list.length, updateListHash: core.blake3(list) }
  const manifest = { ...plain.manifest, ...listed, suite: SUITE_POINTPROOFS, pointproofs }
  const manifestBytes = encodeManifest(manifest)
  const manifestHash = core.blake3(manifestBytes)
  blobs.set(hex(pointproofs.rowsHash), lists)
  blobs.set(hex(pointproofs.keyHash), key)
  const answer = (vectors: Uint8Array, proofs?: Proofs): Uint8Array => {
    if (proofs !== 'pointproofs') return plain.answer(vectors, proofs)
    const records = plain.handle.answer(vectors, SUITE_TAGS)
    const count = vectors.length / 2 / partitions
    const body = Buffer.concat([records, new Uint8Array(POINTPROOF_BYTES)])
    const header = encodeAnswerTo({ suite: SUITE_POINTPROOFS, count }, manifest, body).subarray(0, HEADER_BYTES)
    const offsets = [...new Uint16Array(vectors.slice().buffer)]
    const proof = prove(ceremony.alpha, shape, database, { manifest: manifestHash, header, offsets, records })
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
