// Lookups with one server, over HTTP: lengths that follow from the manifest, and what is no such query refused in the order of
// docs/protocol.md. (tests/world/living has them at both epochs, with claims behind them.)

import {
  contentHash,
  decodeParities,
  encodeParityQuery,
  type Manifest,
  parityAnswerBytes,
  parseErrorReply,
  parseInfo,
} from '@keyhush/protocol'
import { type Core, loadCore, type SingleHandle } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { ServerOptions } from '../dist/index.js'
import { CONTENT, entropy, fixed, RECORD_BYTES, RECORDS } from './computing.js'
import { changed, faultsOf, post, queryAt, running } from './helpers.js'

const BLOB_PATH = (hash: Uint8Array) => `/v1/blobs/${Buffer.from(hash).toString('hex')}`
const LIMIT = 131_072

let core: Core
beforeAll(async () => {
  core = await loadCore()
})

function layoutOf({ records, recordBytes, partitions, partitionRecords, blockRecords }: Manifest) {
  return core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
}

const serverFor = (dataset: ServerOptions['datasets'][number]['dataset']) => running({ datasets: [{ dataset }] })

/** Hints made of what this server's blobs are. */
async function hintsOf(app: FastifyInstance, manifest: Manifest): Promise<SingleHandle> {
  const layout = layoutOf(manifest)
  const builder = core.newSingleBuilder(layout, manifest.contentHashes, entropy(), 50)
  for (let q = 0; q < manifest.partitions; q++) {
    const { rawPayload } = await app.inject(BLOB_PATH(contentHash(manifest, q)))
    builder.begin(0, q)
    new Uint8Array(core.memory.buffer, builder.lanePointer(0), rawPayload.length).set(rawPayload)
    builder.absorb(0, rawPayload.length)
    expect(builder.fold(0)).toBe(true)
  }
  const hints = builder.finish(0)
  onTestFinished(() => hints.free())
  return hints
}

function asked(hints: SingleHandle, manifest: Manifest, indices: readonly number[]) {
  hints.query(Uint32Array.from(indices), entropy())
  return encodeParityQuery(manifest, indices.length, hints.request())
}

const recordsAt = (content: Uint8Array, indices: readonly number[]) =>
  Buffer.concat(indices.map(index => content.subarray(index * RECORD_BYTES, (index + 1) * RECORD_BYTES)))

describe('a lookup with one server', () => {
  test.each([{}, { proofs: 'tags' as const }])('finds records of a database built with %o', async choices => {
    const dataset = await fixed(choices)
    const { manifest } = dataset
    const app = await serverFor(dataset)
    expect(parseInfo((await app.inject('/v1/info')).json()).offers.single).toBe(true)
    const hints = await hintsOf(app, manifest)
    for (const indices of [[0], [RECORDS - 1, 3, 3], [3, 0, 299, 150, 151]]) {
      const reply = await post(app, '/v1/answer', asked(hints, manifest, indices))
      expect(reply.statusCode).toBe(200)
      expect(reply.headers).toMatchObject({
        'content-length': String(parityAnswerBytes(manifest, indices.length)),
        'cache-control': 'no-store, no-transform',
        'content-type': 'application/octet-stream',
      })
      expect(hints.verify(decodeParities(manifest, indices.length, reply.rawPayload))).toBe(true)
      expect(Buffer.from(hints.recon()).equals(recordsAt(CONTENT, indices))).toBe(true)
      hints.takeEffect()
    }
    expect(hints.left).toBe(50 - 9)
  })

  test('that is none is refused', async () => {
    const dataset = await fixed()
    const { manifest } = dataset
    const app = await serverFor(dataset)
    const hints = await hintsOf(app, manifest)
    const good = asked(hints, manifest, [1, 2])
    const [queryBytes, , most] = core.singleBytes(layoutOf(manifest))
    const counted = (count: number) => {
      const body = Buffer.alloc(40 + count * queryBytes!)
      body.set(good.subarray(0, 40))
      body.writeUInt16LE(count, 36)
      for (let at = 40; at < body.length; at += queryBytes!) body.set(good.subarray(40, 40 + queryBytes!), at)
      return body
    }
    const limit = Math.min(most!, manifest.maxQueries)
    expect(limit).toBe(Math.min(64, Math.floor(LIMIT / queryBytes!), manifest.maxQueries))
    const faults: [string, Uint8Array, string][] = [
      ['its head alone', good.subarray(0, 40), 'bad_request'],
      ...faultsOf(good),
      ['as an instant one', changed(good, 6, 4), 'bad_request'],
      ['of one query less', changed(good, 36, 1), 'bad_request'],
      ['no half', changed(good, 40, good[40]! ^ 1), 'bad_request'],
      ['beyond its stripe', changed(good, 40 + queryBytes! - 2, 0xff, 0xff), 'bad_request'],
      ['too many', counted(limit + 1), limit < 64 ? 'bad_request' : 'too_large'],
    ]
    const codes = []
    for (const [name, body] of faults)
      codes.push([name, parseErrorReply((await post(app, '/v1/answer', body)).body).code])
    expect(codes).toEqual(faults.map(([name, , code]) => [name, code]))
    for (const body of [good, counted(limit), queryAt(manifest, 0)])
      expect((await post(app, '/v1/answer', body)).statusCode).toBe(200)
  })
})
