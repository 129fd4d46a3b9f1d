// Makes the worked example of docs/protocol.md anew. If it differs, the failure shows what to paste into the page.

import { readFileSync } from 'node:fs'
import { encodeInstantAnswer, encodeInstantQuery, encodeManifest, encodeRecord, type Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { expect, test } from 'vitest'
import { commitDatabase, layoutHandle } from '../support/wasm.js'

const SEEDS = Uint8Array.from({ length: 32 }, (_, i) => i)
const VALUES = { otter: 'river', heron: 'shore' }
const layout = { records: 2, recordBytes: 256, partitions: 65, partitionRecords: 2, blockRecords: 1 }
const shape = { ...layout, valueBytes: 238, keyed: true, variable: true }

test('the worked example in docs/protocol.md is what the core makes', async () => {
  const core = await loadCore()
  const prints = Object.keys(VALUES).map(key => core.fingerprint(utf8ToBytes(key)))
  const directory = core.buildDirectory(concatBytes(...prints), 130)
  const { blockLog, blockBytes, seed } = directory
  const blocks = directory.database()
  const index = (print: Uint8Array) => core.decodeDirectory(directory.encode(), 2).index(print, 2)
  const records = new Uint8Array(512)
  Object.values(VALUES).forEach((value, i) => {
    records.set(encodeRecord(shape, prints[i], utf8ToBytes(value)), 256 * index(prints[i]!))
  })
  const { handle, commitments, contentHashes } = commitDatabase(core, layout, records)
  const none = new Uint8Array(32)
  const manifest: Manifest = {
    ...shape,
    ...{ suite: 1, databaseId: core.databaseId(utf8ToBytes('animals')), generation: 1, epoch: 1, expires: 0 },
    ...{ maxQueries: 64, blockRecords: 1, directoryBytes: directory.encode().length, updateListBytes: 0 },
    ...{ directoryHash: blake3(directory.encode()), updateListHash: none, previousManifest: none },
    ...{ directoryBlockLog: blockLog, directoryBlockBytes: blockBytes, directorySeed: seed },
    ...{ directoryCommitment: blocks.commitment(0), commitments, contentHashes },
  }
  const bytes = encodeManifest(manifest)
  const number = core.directoryShape(blockLog, blockBytes, seed).number(prints[0]!)
  const start = blocks.recordsPointer() + number * blockBytes
  const block = new Uint8Array(core.memory.buffer, start, blockBytes).slice()
  const found = index(prints[0]!)

  const query = core.newInstantQuery(layoutHandle(core, layout), Uint32Array.of(found), SEEDS)
  const queries = ([0, 1] as const).map(server => query.request(server))
  const answers = queries.map(each => {
    const pass = core.newInstantPass(handle, each, new Uint8Array(1))
    while (pass.step(handle));
    return pass.finish(handle)
  })
  const record = query.recon(commitments, concatBytes(...answers))!
  const sum = answers[0]!.map((byte, i) => byte ^ answers[1]![i]!)
  expect(record).toEqual(sum.subarray(0, 256))

  const secret = new Uint8Array(32).fill(7)
  const signed = concatBytes(utf8ToBytes('keyhush 2026-11 manifest signature v1'), bytes)
  const lines = {
    'manifest, bytes 0 to 223': bytes.subarray(0, 224),
    '  partition 0': bytes.subarray(224, 288),
    '  partitions 1 to 64, each': bytes.subarray(288, 352),
    "publisher's key": ed25519.getPublicKey(secret),
    signature: ed25519.sign(signed, secret),
    'fingerprint of otter': prints[0]!,
    [`directory block ${number}, ${blockBytes} bytes`]: block,
    [`index ${found}; s_0`]: queries.find(each => each.at(-1) === 0)!.subarray(0, 16),
    s_1: queries.find(each => each.at(-1) === 1)!.subarray(0, 16),
    'request to server A': encodeInstantQuery(manifest, 'records', 1, queries[0]!),
    'request to server B': encodeInstantQuery(manifest, 'records', 1, queries[1]!),
    'answer of server A': encodeInstantAnswer(manifest, 'records', 1, answers[0]!),
    'answer of server B': encodeInstantAnswer(manifest, 'records', 1, answers[1]!),
    'both together': sum,
  }
  const example = Object.entries(lines).map(([name, hex]) => `${name}\n${written(hex)}`)
  const page = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8')
  const there = page.slice(page.indexOf('```text\n') + 8, page.indexOf('\n```', page.indexOf('```text\n')))
  expect(there).toBe(example.join('\n'))
})

/** Hex in lines of 32 bytes; 32 zeros and more are counted. */
function written(bytes: Uint8Array): string {
  const pieces = bytesToHex(bytes).match(/(?:00){32,}|(?:(?!(?:00){32})..)+/g) ?? []
  const lines = pieces.flatMap(piece =>
    /^(?:00){32,}$/.test(piece) ? [zeros(piece)] : (piece.match(/.{1,64}/g) ?? []),
  )
  return lines.map(line => `    ${line}`).join('\n')
}

const zeros = (hex: string) => `(${hex.length / 2} zeros)`
