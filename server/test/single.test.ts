// Lookups with one server, over HTTP: right at both epochs, with a claim behind them or without, lengths that follow from the
// manifest, and what is no such query refused in the order of docs/protocol.md.

import {
  contentHash,
  decodeParities,
  encodeFenceRequest,
  encodeParityQuery,
  type FenceClaim,
  type Manifest,
  parityAnswerBytes,
  parseErrorReply,
  parseInfo,
  splitVerdict,
  withClaim,
} from '@keyhush/protocol'
import { type Core, loadCore, type SingleHandle } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { ServerOptions } from '../dist/index.js'
import { CONTENT, changing, entropy, fixed, RECORD_BYTES, RECORDS } from './computing.js'
import { changed, faultsOf, post, pseudoRandom, queryAt, running } from './helpers.js'
import { batchOn } from './updatable-helpers.js'

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

  test('is answered at the epoch before an update, and after it at the new one, with a claim behind it', async () => {
    const updatable = await changing()
    const app = await running({ datasets: [{ updatable }] })
    const before = updatable.newest.manifest
    const hints = await hintsOf(app, before)
    const claim: FenceClaim = {
      ...{ databaseId: updatable.databaseId, hintId: hints.hintId, version: 0, requestHash: new Uint8Array(32) },
    }
    const registered = await post(app, '/v1/fence', encodeFenceRequest({ kind: 'register', ...claim }))
    expect(registered.rawPayload[6]).toBe(1)

    const indices = [5, 6, 5]
    const query = asked(hints, before, indices)
    const content = pseudoRandom(CONTENT.length, 9) // every record is another
    const edits = Array.from({ length: RECORDS }, (_, index) => {
      return { op: 'edit', index, value: recordsAt(content, [index]).toString('hex') }
    })
    await updatable.publish(batchOn(updatable, edits, { encoding: 'hex' }))
    const { manifest } = updatable.newest

    const old = await post(app, '/v1/answer', query)
    expect(old.statusCode).toBe(200)
    const list = await app.inject(BLOB_PATH(manifest.updateListHash))
    const pendingAtOld = decodeParities(before, 3, old.rawPayload)
    hints.update(list.rawPayload, layoutOf(manifest))
    const claimed = withClaim(encodeParityQuery(manifest, 3, hints.request()), {
      ...{ ...claim, version: 1, requestHash: hints.batchName() },
    })
    const reply = await post(app, '/v1/answer', claimed)
    expect(reply.statusCode).toBe(200)
    const { answer, verdict } = splitVerdict(reply.rawPayload)
    expect(verdict).toBe('granted')
    const parities = decodeParities(manifest, 3, answer)
    expect(Buffer.from(parities).equals(pendingAtOld)).toBe(false)
    expect(hints.verify(parities)).toBe(true)
    expect(Buffer.from(hints.recon()).equals(recordsAt(content, indices))).toBe(true)
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
    const limit = Math.min(most!, manifest.maxBatch)
    expect(limit).toBe(Math.min(64, Math.floor(LIMIT / queryBytes!), manifest.maxBatch))
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
