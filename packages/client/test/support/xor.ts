// A scheme for tests alone: two equal servers are each sent a random set of records, which differ in the record that is
// wanted, and send back the sum of theirs. Nothing is kept, and only both answers together show whether they fit: each
// record is followed by a checksum. (No protection from servers that know the sum they make wrong.)

import { type InstantOf, instantLayout, WireError } from '@keyhush/protocol'
import type { Scheme, StatelessScheme } from '../../src/scheme/scheme.js'
import { SCHEMES } from '../../src/scheme/table.js'
import type { Database } from './database.js'
import { core } from './harness.js'
import { A, B, type Network, ok } from './network.js'

const CHECKSUM_BYTES = 8
export const PATH = '/v1/xor'
/** an epoch, and a byte that says of what: 0 of records, 1 of the directory's blocks */
const HEAD_BYTES = 5

const vectorBytes = (records: number) => Math.ceil(records / 8)
const sumBytes = (recordBytes: number) => recordBytes + CHECKSUM_BYTES

export const xor: StatelessScheme = {
  name: 'xor',
  kind: 'stateless',
  parties: ['one', 'other'],
  costs(_core, manifest) {
    const steps = manifest.keyed ? (['directory', 'records'] as const) : (['records'] as const)
    const layouts = steps.map(of => instantLayout(manifest, of))
    return {
      ...{ prepareBytes: 0, prepareBytesUp: 0, firstBytes: 0, dayBytes: 0, memoryBytes: 0, diskBytes: 0 },
      ...{ serverPrepareMicros: 0, serverLookupMicros: 0 },
      lookupBytesUp: layouts.reduce((sum, { records }) => sum + 2 * (HEAD_BYTES + vectorBytes(records)), 0),
      lookupBytesDown: layouts.reduce((sum, { recordBytes }) => sum + 2 * sumBytes(recordBytes), 0),
      held: {},
      maxBatch: 64,
    }
  },
  isOffered: () => true,
  assertIn() {},
  begin({ environment }, manifest, of, indices) {
    const { epoch } = manifest
    const { records, recordBytes } = instantLayout(manifest, of)
    const each = vectorBytes(records)
    const [one, other] = [0, 1].map(() => new Uint8Array(HEAD_BYTES + indices.length * each)) as [
      Uint8Array,
      Uint8Array,
    ]
    const sums = new Uint8Array(indices.length * sumBytes(recordBytes))
    indices.forEach((index, i) => {
      const set = environment.random(each)
      for (const body of [one, other]) body.set(set, HEAD_BYTES + i * each)
      other[HEAD_BYTES + i * each + (index >> 3)]! ^= 1 << (index & 7)
    })
    for (const body of [one, other]) {
      new DataView(body.buffer).setUint32(0, epoch, true)
      body[4] = of === 'records' ? 0 : 1
    }
    return {
      asks: [one, other].map(body => ({ path: PATH, body, replyBytes: sums.length })),
      accept(_party, reply) {
        if (reply.every(byte => byte === 0xff)) throw new WireError('malformed', 'a sum that is none')
        reply.forEach((byte, at) => {
          sums[at]! ^= byte
        })
        return 'open'
      },
      finish() {
        const found: Uint8Array[] = []
        let genuine = true
        for (let i = 0; i < indices.length; i++) {
          const sum = sums.subarray(i * sumBytes(recordBytes), (i + 1) * sumBytes(recordBytes))
          const record = sum.slice(0, recordBytes)
          genuine &&= checksum(record).every((byte, at) => byte === sum[recordBytes + at])
          found.push(record)
        }
        return genuine ? Uint8Array.from(found.flatMap(record => [...record])) : undefined
      },
      free() {},
    }
  },
}

function checksum(record: Uint8Array): Uint8Array {
  return core.blake3(record).subarray(0, CHECKSUM_BYTES)
}

/** What there is, and this. */
export const withXor: ReadonlyMap<string, Scheme> = new Map([...SCHEMES, ['xor', xor]])

/** Has both servers answer it, from the newest of what they have and the one before; `lie` may change an answer. */
export function serveXor(
  network: Network,
  databases: () => readonly Database[],
  lie: (server: string, answer: Uint8Array) => void = () => {},
): void {
  for (const server of [A, B]) {
    network.misbehave[server] = ({ path, body }) => {
      if (path !== PATH) return undefined
      const epoch = new DataView(body.buffer, body.byteOffset).getUint32(0, true)
      const kept = databases().slice(-2)
      const database = kept.find(({ manifest }) => manifest.epoch === epoch)
      if (database === undefined) {
        const { generation, epoch: newest } = kept.at(-1)!.manifest
        return Response.json({ code: 'epoch_unknown', message: '', generation, epoch: newest }, { status: 404 })
      }
      const answer = answered(database, body[4] === 0 ? 'records' : 'directory', body.subarray(HEAD_BYTES))
      lie(server, answer)
      return ok(answer)
    }
  }
}

function answered({ manifest, handle, blocks }: Database, of: InstantOf, sets: Uint8Array): Uint8Array {
  const { records, recordBytes, partitions, partitionRecords } = instantLayout(manifest, of)
  const source = of === 'records' ? handle : blocks!
  const flat = new Uint8Array(
    core.memory.buffer,
    source.recordsPointer(),
    partitions * partitionRecords * recordBytes,
  ).slice()
  const each = vectorBytes(records)
  const answer = new Uint8Array((sets.length / each) * sumBytes(recordBytes))
  for (let i = 0; i * each < sets.length; i++) {
    for (let index = 0; index < records; index++) {
      if (((sets[i * each + (index >> 3)]! >> (index & 7)) & 1) === 0) continue
      const record = flat.subarray(index * recordBytes, (index + 1) * recordBytes)
      const at = i * sumBytes(recordBytes)
      record.forEach((byte, b) => {
        answer[at + b]! ^= byte
      })
      checksum(record).forEach((byte, b) => {
        answer[at + recordBytes + b]! ^= byte
      })
    }
  }
  return answer
}
