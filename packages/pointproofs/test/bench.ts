// What Pointproofs cost in WebAssembly, in processor time: `node tests/run.mjs pointproofs`, after `npm run build`. The same
// natively: rust/pointproofs/examples/figures.rs.

import { readFileSync } from 'node:fs'
import { brotliCompressSync } from 'node:zlib'
import { loadPointproofs } from '@keyhush/pointproofs'
import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { stream } from '../../../tests/interop/vectors.js'
import { EDIT_BYTES, loadProving, OPENING_BYTES } from '../dist/server/module.js'
import { Ceremony, prove, rowLists } from './support/reference.js'

/** Milliseconds a run, without the first, in which engines compile. */
function measure(what: string, runs: number, run: () => unknown): void {
  run()
  const start = process.cpuUsage()
  for (let n = 0; n < runs; n++) run()
  const { user, system } = process.cpuUsage(start)
  console.log(`${((user + system) / 1000 / runs).toFixed(1).padStart(10)} ms  ${what}`)
}

export async function pointproofs(): Promise<number> {
  const module = readFileSync(new URL('../generated/pointproofs_bg.wasm', import.meta.url))
  console.log(`${(brotliCompressSync(module).length / 1000).toFixed(1).padStart(10)} kB  the module, brotli`)
  const { verifier: make, beginCeremony, ceremony } = await loadPointproofs()
  const entropy = new Uint8Array(32).fill(1)
  const begun = ceremony(beginCeremony(true), entropy)
  measure('ceremony: contribute', 3, () => begun.contribute('Ada', entropy))
  const transcript = begun.contribute('Ada', entropy).slice(0, -32)
  measure('ceremony: verify', 3, () => ceremony(transcript, entropy).free())

  // Two rows a partition; how many there are does not matter to who verifies.
  const shape = { partitions: 16, partitionRecords: 512, recordBytes: 32 }
  const known = new Ceremony(true)
  known.contribute('Ada', entropy)
  const key = known.key()
  const records = stream('records', 16 * 512 * 32)
  const lists = rowLists(known.alpha, blake3(key), shape, records)
  measure('client: read the key', 10, () => make(key, blake3(key), true, shape, lists).free())
  const offsets = Array.from({ length: 16 }, (_, q) => (q * 151) % 512)
  const found = offsets.map((offset, q) => records.slice((q * 512 + offset) * 32, (q * 512 + offset + 1) * 32))
  const answer = {
    manifest: stream('manifest', 32),
    header: stream('header', 40),
    offsets,
    records: concatBytes(...found),
  }
  const proof = prove(known.alpha, shape, records, answer)
  const verifier = make(key, blake3(key), true, shape, lists)
  let longest = 0
  const piece = <T>(work: () => T) => {
    const start = process.cpuUsage()
    const result = work()
    const { user, system } = process.cpuUsage(start)
    longest = Math.max(longest, (user + system) / 1000)
    return result
  }
  /** As clients do, who give their thread back between two pieces. */
  const verify = () => {
    const { manifest, header, records } = answer
    const verification = piece(() => verifier.begin(manifest, header, Uint16Array.from(offsets), records, proof))
    while (piece(() => verification.step())) {}
    return piece(() => verification.finish())
  }
  if (!verify()) throw new Error('an honest proof does not hold')
  for (let run = 0; run < 3; run++) verify() // engines compile
  longest = 0
  measure('client: verify both answers of a lookup, Q = 16', 10, () => [verify(), verify()])
  console.log(`${longest.toFixed(1).padStart(10)} ms  … the longest piece of it`)

  const proving = await loadProving()
  const held = proving.ceremony(transcript, entropy)
  const prover = proving.prover(proving.setup(held), shape)
  const partition = records.slice(0, 512 * 32)
  measure('server: commit to and open 512 records', 3, () => prover.prove(0, partition))
  const rowList = prover.prove(0, partition).slice(0, 32 + 2 * 48)
  measure('server: hold a row list to 512 records', 10, () => prover.commits(0, partition, rowList, entropy))
  const openings = new Uint8Array(16 * OPENING_BYTES)
  for (let q = 0; q < 16; q++) {
    const proved = prover.prove(q, records.slice(q * 512 * 32, (q + 1) * 512 * 32))
    const at = rowList.length + (offsets[q] as number) * OPENING_BYTES
    openings.set(proved.subarray(at, at + OPENING_BYTES), q * OPENING_BYTES)
  }
  const { manifest, header } = answer
  measure('server: one proof of 16 entries', 20, () =>
    proving.proveTogether(shape, manifest, header, Uint16Array.from(offsets), answer.records, openings),
  )
  const changed = Uint32Array.from({ length: 500 }, (_, n) => n * 16)
  const bytes = stream('changed', 500 * 32)
  const edits = prover.edits(changed, bytes, bytes.toReversed())
  measure('server: 500 edits of records', 10, () => prover.edits(changed, bytes, bytes.toReversed()))
  const rows = changed.map(index => (index >> 8) % 32)
  const commitments = Buffer.concat(Array.from({ length: 32 }, () => rowList.subarray(32, 80)))
  measure('server: 32 row commitments after 500 edits', 10, () => prover.follow(commitments, rows, edits))
  for (const count of [4, 128]) {
    const of = Uint32Array.from({ length: count }, (_, n) => n % 16)
    const some = edits.subarray(0, count * EDIT_BYTES)
    measure(`server: one proof of 16 entries, ${count} edits since their openings`, 20, () =>
      prover.proveEdited(16, manifest, header, Uint16Array.from(offsets), answer.records, openings, of, some),
    )
  }
  const row = prover.prove(0, partition).slice(rowList.length, rowList.length + 256 * OPENING_BYTES)
  measure('server: fold edits into the openings of a row', 5, () => prover.fold(row, edits.subarray(0, 9 * EDIT_BYTES)))
  return 0
}
