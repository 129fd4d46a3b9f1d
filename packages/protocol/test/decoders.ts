// TypeScript's decoders, each held to its law: any bytes are refused with a WireError, or read; and where there is an
// encoder, it writes what was read byte for byte.

import * as wire from '@keyhush/protocol'
import { decodeManifests } from '@keyhush/protocol/chain'
import fc from 'fast-check'
import vectors from '../../../tests/interop/vectors/wire.json' with { type: 'json' }

import { shardedFirst, shardedLater } from './manifests.js'

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const json = (bytes: Uint8Array): unknown => JSON.parse(text(bytes))

const manifests = vectors.manifests.map(({ bytes }) => wire.decodeManifest(wire.fromHex(bytes)))

/** Throws if what was read is written otherwise. */
function same(written: Uint8Array, read: Uint8Array): void {
  if (!wire.equalBytes(written, read)) throw new Error(`read ${wire.toHex(read)}, written ${wire.toHex(written)}`)
}

/** A query's bytes. */
function written(query: ReturnType<typeof wire.decodeQuery>): Uint8Array {
  const manifest = { ...manifests[0]!, ...query, maxQueries: query.count }
  return wire.encodeQuery(manifest, query.count, query.vectors, wire.builtFor(query))
}

export const DECODERS: Readonly<Record<string, (bytes: Uint8Array) => void>> = {
  manifest: bytes => same(wire.encodeManifest(wire.decodeManifest(bytes)), bytes),
  manifests: bytes => {
    for (const each of decodeManifests(bytes)) same(wire.encodeManifest(each.manifest), each.bytes)
  },
  query: bytes => same(written(wire.decodeQuery(bytes)), bytes),
  'claimed query': bytes => {
    const { query, claim } = wire.decodeClaimedQuery(bytes)
    if (claim && !wire.equalBytes(claim.databaseId, query.databaseId)) throw new Error('a claim of another database')
    same(claim ? wire.withClaim(written(query), claim) : written(query), bytes)
  },
  answer: bytes => {
    for (const manifest of manifests) {
      refused(() => same(wire.encodeAnswer(manifest, 1, wire.decodeAnswer(manifest, 1, bytes)), bytes))
    }
  },
  'answer and verdict': bytes => {
    const { answer, verdict } = wire.splitVerdict(bytes)
    same(wire.withVerdict(answer, verdict), bytes)
  },
  'instant query': bytes => {
    const { of, count, queries, ...header } = wire.decodeInstantQuery(bytes)
    const [manifest, { servers, groupLog }] = [{ ...manifests[0]!, ...header }, header]
    const written =
      groupLog === undefined
        ? wire.encodeInstantQuery(manifest, of, count, queries, header)
        : wire.encodePartQuery(manifest, of, count, queries, servers, groupLog)
    same(written, bytes)
  },
  'instant answer': bytes => {
    for (const [manifest, servers] of manifests.flatMap(manifest =>
      [2, 3].map(servers => [manifest, servers] as const),
    )) {
      const each = bytes.length - wire.HEADER_BYTES
      refused(() => {
        const answer = wire.decodeInstantAnswer(manifest, 'records', 1, each, bytes, servers)
        same(wire.encodeInstantAnswer(manifest, 'records', 1, answer, servers), bytes)
      })
    }
  },
  'query to one server': bytes => {
    const { of, count, queries, ...header } = wire.decodeOneServerQuery(bytes)
    same(wire.encodeOneServerQuery({ ...manifests[0]!, ...header }, of, count, queries), bytes)
  },
  'answer of one server': bytes => {
    for (const manifest of manifests) {
      refused(() => {
        const answer = wire.decodeOneServerAnswer(manifest, 'records', 1, bytes.length - wire.HEADER_BYTES, bytes)
        same(wire.encodeOneServerAnswer(manifest, 'records', 1, answer), bytes)
      })
    }
  },
  'fence request': bytes => same(wire.encodeFenceRequest(wire.decodeFenceRequest(bytes)), bytes),
  'fence reply': bytes => same(wire.encodeFenceReply(wire.decodeFenceReply(bytes)), bytes),
  record: bytes => {
    for (const manifest of manifests) {
      refused(() => {
        const record = wire.decodeRecord(manifest, bytes)
        // An empty slot has no value, and nobody writes one.
        if (record.value !== undefined) same(wire.encodeRecord(manifest, record.fingerprint, record.value), bytes)
      })
    }
  },
  batch: bytes => same(wire.encodeBatch(wire.decodeBatch(bytes)), bytes),
  'update list': bytes => {
    for (const _ of wire.updateEntries(bytes, 1 + (bytes.length % 40)));
  },
  event: bytes => {
    const event = wire.parseEvent(text(bytes))
    wire.parseEvent(wire.encodeEvent(event))
  },
  'error reply': bytes => void wire.parseErrorReply(text(bytes)),
  info: bytes => parsed(bytes, wire.parseInfo),
  'epoch status': bytes => parsed(bytes, wire.parseEpochStatus),
  signature: bytes => parsed(bytes, wire.parsePostedSignature),
}

/** What is no JSON is refused before it gets here. */
function parsed(bytes: Uint8Array, parse: (json: unknown) => unknown): void {
  let value: unknown
  try {
    value = json(bytes)
  } catch {
    return
  }
  parse(value)
}

/** Whether it refuses. Throws what is no WireError. */
export function refused(decode: () => void): boolean {
  try {
    decode()
    return false
  } catch (error) {
    if (error instanceof wire.WireError) return true
    throw error
  }
}

const hex = (length: number) => 'ab'.repeat(length)
const epoch = { generation: 1, epoch: 2, manifest: hex(32), records: 5, publishedAt: 1, expires: 0 }

/** Valid and refused bytes of all kinds, to begin with. */
export const CORPUS: readonly Uint8Array[] = [
  ...[
    ...[...vectors.manifests, ...vectors.queries, ...vectors.answers, ...vectors.records, ...vectors.refused],
    ...[...vectors.instantQueries, ...vectors.instantAnswers, ...vectors.fenceRequests, ...vectors.batches],
    ...vectors.claims.flatMap(({ request, reply }) => [{ bytes: request }, { bytes: reply }]),
  ].map(
    // Headers and members are text.
    ({ bytes }) => (/^(?:[0-9a-f]{2})*$/.test(bytes) ? wire.fromHex(bytes) : new TextEncoder().encode(bytes)),
  ),
  wire.encodeFenceRequest({
    ...{ kind: 'confirm', databaseId: new Uint8Array(16).fill(1), hintId: new Uint8Array(16).fill(2), version: 3 },
    requestHash: new Uint8Array(32).fill(4),
  }),
  wire.encodeBatch({
    ...{ encoding: 'hex', databaseId: new Uint8Array(16).fill(1), generation: 1, epoch: 2, expires: 0 },
    previousManifest: new Uint8Array(32).fill(5),
    operations: new TextEncoder().encode('{"op":"delete","key":"a"}\n'),
  }),
  wire.encodeFenceReply('granted'),
  wire.encodeManifest({
    ...manifests[0]!,
    expires: 1,
    oneServer: wire.ownBase(manifests[0]!, new Uint8Array(32).fill(6)),
  }),
  ...manifests
    .filter(({ keyed }) => keyed)
    .slice(0, 1)
    .map(keyed => wire.encodeManifest({ ...keyed, slotMarksHash: new Uint8Array(32).fill(9) })),
  wire.encodeOneServerQuery(manifests[0]!, 'directory', 2, new Uint8Array(8).fill(7)),
  wire.encodeOneServerAnswer(manifests[0]!, 'records', 1, new Uint8Array(8).fill(8)),
  wire.encodeFenceReply('refused'),
  ...[shardedFirst, shardedLater].map(wire.encodeManifest),
  wire.encodePartQuery(shardedFirst, 'records', 1, new Uint8Array(8).fill(9), 3, 4),
  ...[
    wire.encodeEvent({ databaseId: new Uint8Array(16).fill(0xab), generation: 1, epoch: 2 }),
    JSON.stringify({ code: 'epoch_unknown', message: 'm', generation: 1, epoch: 2 }),
    JSON.stringify({ ...epoch, batch: hex(32), changes: 3 }),
    JSON.stringify({ publicKey: hex(32), generation: 1, epoch: 2, signature: hex(64) }),
    JSON.stringify({
      format: 1,
      software: 'x',
      database: hex(16),
      epochs: [epoch],
      offers: {
        proofs: ['merkle'],
        updates: true,
        push: true,
        blobs: true,
        fence: true,
        instant: true,
        single: true,
        oneServer: true,
        history: 3,
      },
      signatures: [],
    }),
  ].map(each => new TextEncoder().encode(each)),
]

/** Something of the corpus, cut, joined, overwritten and flipped; or anything at all; or JSON. */
export const inputs: fc.Arbitrary<Uint8Array> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .record({
        begin: fc.constantFrom(...CORPUS),
        end: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, fc.constantFrom(...CORPUS)),
        cut: fc.option(fc.nat(400), { freq: 3 }),
        changes: fc.array(
          fc.record({
            at: fc.nat(300),
            bytes: fc.oneof(
              fc.uint8Array({ minLength: 1, maxLength: 8 }),
              fc.constantFrom(...[0, 1, 0xff].flatMap(byte => [1, 2, 4, 8].map(n => new Uint8Array(n).fill(byte)))),
            ),
          }),
          { maxLength: 4 },
        ),
      })
      .map(({ begin, end, cut, changes }) => {
        const bytes = new Uint8Array([...begin.subarray(0, cut ?? begin.length), ...(end ?? [])])
        for (const { at, bytes: change } of changes) {
          if (bytes.length > 0) bytes.set(change.subarray(0, bytes.length - (at % bytes.length)), at % bytes.length)
        }
        return bytes
      }),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 600 }) },
  { weight: 1, arbitrary: fc.json().map(each => new TextEncoder().encode(each)) },
)
