// A database with Pointproofs as a server holds it: proved by the real module, under a ceremony held here.

import {
  encodeAnswerTo,
  encodeManifest,
  HEADER_BYTES,
  POINTPROOF_BYTES,
  type Proofs,
  SUITE_POINTPROOFS,
  SUITE_TAGS,
} from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import { loadProving, OPENING_BYTES } from '@pirouette/wasm/prover'
import { buildDatabase, type Contents, type Database } from './database.js'

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
  const plain = buildDatabase(core, contents)
  const { partitions, partitionRecords, recordBytes } = plain.manifest
  const shape = { partitions, partitionRecords, recordBytes }
  const ceremony = proving.ceremony(transcriptOf(development), new Uint8Array(32))
  const prover = proving.prover(ceremony, shape)
  const key = ceremony.key()
  const transcriptHash = ceremony.hash
  ceremony.free()
  const rowBytes = 32 + 48 * Math.ceil(partitionRecords / 256)
  const proved = Array.from({ length: partitions }, (_, q) => {
    const bytes = partitionRecords * recordBytes
    const at = plain.handle.recordsPointer() + q * bytes
    return prover.prove(q, new Uint8Array(core.memory.buffer, at, bytes).slice())
  })
  prover.free()
  const rowLists = Buffer.concat(proved.map(bytes => bytes.subarray(0, rowBytes)))
  const pointproofs = { rowsHash: core.blake3(rowLists), keyHash: core.blake3(key), transcriptHash, development }
  const manifest = { ...plain.manifest, suite: SUITE_POINTPROOFS, pointproofs }
  const manifestBytes = encodeManifest(manifest)
  const manifestHash = core.blake3(manifestBytes)
  const blobs = new Map(plain.blobs)
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
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
        return proved[n % partitions]!.subarray(at, at + OPENING_BYTES)
      }),
    )
    const proof = proving.proveTogether(shape, manifestHash, header, offsets, records, openings)
    return Buffer.concat([records, proof])
  }
  return { ...plain, manifest, manifestBytes, blobs, answer }
}
