// The list of docs/protocol.md, Refusals: every message that a server refuses, with its status and code.

import {
  BATCH_SIGNATURE_HEADER,
  encodeBatchSignature,
  encodeFenceRequest,
  type FenceRequest,
  parseErrorReply,
  signedBatchBytes,
  signedBytes,
  toHex,
  withClaim,
} from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import type { FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { Refusal } from '../dist/base/refusal.js'
import type { UpdatableDatabase } from '../dist/index.js'
import { builtDataset, changed, pseudoRandom, queryAt, running } from './helpers.js'
import { batchOn, KEYED, opened, storageOf } from './updatable-helpers.js'

const { secretKey, publicKey } = ed25519.keygen(pseudoRandom(32))
const ZERO = new Uint8Array(32)

interface World {
  readonly app: FastifyInstance
  readonly updatable: UpdatableDatabase
}

/** At epoch 3, with a publisher's key. */
async function world(): Promise<World & { fail(): void }> {
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
  const updatable = await opened(storage, { history: 1 })
  for (const value of ['x', 'y']) await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value }]))
  const app = await running({ datasets: [{ updatable, publisherKeys: [publicKey] }] })
  const fail = () => {
    storage.fails = () => true
  }
  return { app, updatable, fail }
}

interface Message {
  readonly method: 'GET' | 'OPTIONS' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  readonly url: string
  readonly headers?: Record<string, string>
  readonly payload?: Uint8Array | string
}

const get = (url: string, headers = {}): Message => ({ method: 'GET', url, headers })
const post = (url: string, payload: Uint8Array | string, headers = {}): Message => ({
  method: 'POST',
  url,
  payload,
  headers,
})
const answer = (payload: Uint8Array | string, headers = {}) => post('/v1/answer', payload, headers)
const toFence = (payload: Uint8Array | string, headers = {}) => post('/v1/fence', payload, headers)

async function send(app: FastifyInstance, { payload, ...message }: Message): Promise<string> {
  const body = typeof payload === 'object' ? Buffer.from(payload) : payload
  const reply = await app.inject({ ...message, ...(body !== undefined && { payload: body }) })
  return reply.statusCode < 400 ? `${reply.statusCode}` : `${reply.statusCode} ${parseErrorReply(reply.body).code}`
}

const query = ({ updatable }: World) => queryAt(updatable.newest.manifest, 0)
const claimOf = ({ updatable: { databaseId } }: World) => ({
  ...{ databaseId, hintId: pseudoRandom(16), version: 7, requestHash: pseudoRandom(32) },
})
const claimed = (world: World) => withClaim(query(world), claimOf(world))
const fenced = (world: World, change: Partial<FenceRequest> = {}) =>
  encodeFenceRequest({ kind: 'confirm', ...claimOf(world), ...change })
const registered = (world: World, change: Partial<FenceRequest> = {}) =>
  fenced(world, { kind: 'register', version: 0, requestHash: ZERO, ...change })

/** A batch, with everything that its publisher has to show for it. */
function batch({ updatable }: World, ...[operations, other]: [readonly object[] | string, object?]): Message {
  return signed(updatable, batchOn(updatable, operations, other))
}

/** A batch whose header is another text. */
function resigned(world: World, change: (header: string) => string): Message {
  const message = batch(world, EDIT)
  return withHeader(message, BATCH_SIGNATURE_HEADER, change(message.headers![BATCH_SIGNATURE_HEADER]!))
}

function signed(
  { databaseId }: Pick<UpdatableDatabase, 'databaseId'>,
  body: Uint8Array,
  of = body,
  base?: Uint8Array,
  by = { secretKey, publicKey },
): Message {
  const batchHash = blake3(of)
  const previousManifest = base ?? body.slice(40, 72)
  const signature = ed25519.sign(signedBatchBytes({ databaseId, previousManifest, batchHash }), by.secretKey)
  const header = encodeBatchSignature({ publicKey: by.publicKey, previousManifest, batchHash, signature })
  return post('/v1/epochs', body, { [BATCH_SIGNATURE_HEADER]: header })
}

const EDIT = [{ op: 'edit', key: 'one', value: 'z' }]

function signature({ updatable }: World, change: object = {}): Message {
  const { manifest, manifestBytes } = updatable.newest
  const { generation, epoch } = manifest
  const entry = {
    publicKey: toHex(publicKey),
    generation,
    epoch,
    signature: toHex(ed25519.sign(signedBytes(manifestBytes), secretKey)),
  }
  return post('/v1/signatures', JSON.stringify({ ...entry, ...change }))
}

function respelt(message: Message, from: string, to: string): Message {
  expect(message.payload).toContain(from)
  return { ...message, payload: String(message.payload).replace(from, to) }
}

const without = (message: Message, header: string): Message => {
  const { [header]: _, ...headers } = message.headers!
  return { ...message, headers }
}
const withHeader = (message: Message, header: string, value: string): Message => ({
  ...message,
  headers: { ...message.headers, [header]: value },
})

type Case = readonly [what: string, message: (world: World) => Message, reply: string]

const BAD = '400 bad_request'
const DENIED = '401 unauthorized'
const ENCODED = '415 unsupported_encoding'

/** A section of the page each: what comes, and what comes of it. */
const CASES: Record<string, readonly Case[]> = {
  'any request': [
    ['an unknown path', () => get('/v1/nothing'), '404 not_found'],
    ['a preflight of an unknown path', () => ({ method: 'OPTIONS', url: '/v1/nothing' }), '404 not_found'],
    ['a preflight of the root', () => ({ method: 'OPTIONS', url: '/' }), '404 not_found'],
    ...[
      '/v1/manifest',
      '/v1/blobs/ab',
      '/v1/answer',
      '/v1/instant',
      '/v1/events',
      '/v1/epochs',
      '/v1/epochs/3',
      '/readyz',
    ].map<Case>(url => [`a preflight of ${url}`, () => ({ method: 'OPTIONS', url }), '204']),
    ['a path that is no UTF-8', () => get('/%ff'), BAD],
    ['a GET of what is posted to', () => get('/v1/answer'), '404 not_found'],
    ['a GET of the batches', () => get('/v1/epochs'), '404 not_found'],
    ['a POST to what is got', () => post('/v1/manifest', 'x'), '404 not_found'],
    ['a PUT', () => ({ ...answer('x'), method: 'PUT' }), '404 not_found'],
    ['a DELETE', () => ({ method: 'DELETE', url: '/v1/epochs/3' }), '404 not_found'],
    ['a PATCH', () => ({ ...toFence('x'), method: 'PATCH' }), '404 not_found'],
    ['an encoded query', w => answer(query(w), { 'content-encoding': 'gzip' }), ENCODED],
    ['an encoded claim', w => toFence(fenced(w), { 'content-encoding': 'identity' }), ENCODED],
    ['an encoded batch', w => withHeader(batch(w, EDIT), 'content-encoding', 'gzip'), ENCODED],
    ['an empty encoding', w => answer(query(w), { 'content-encoding': '' }), ENCODED],
    ['an encoded signature', w => withHeader(signature(w), 'content-encoding', 'br'), ENCODED],
  ],
  manifests: [
    ['generation without epoch', () => get('/v1/manifest?generation=1'), BAD],
    ['epoch without generation', () => get('/v1/manifest?epoch=3'), BAD],
    ['a number twice', () => get('/v1/manifest?generation=1&epoch=3&epoch=3'), BAD],
    ['no number', () => get('/v1/manifests'), BAD],
    ...['', '-1', '+1', '01', '1.0', '1e0', '0x1', '%201', '1%20', '4294967296', '99999999999', '%D9%A8'].flatMap<Case>(
      number => [
        [`the number "${number}" for since`, () => get(`/v1/manifests?since=${number}`), BAD],
        [`the number "${number}" for epoch`, () => get(`/v1/manifest?generation=1&epoch=${number}`), BAD],
        [`the number "${number}" for a status`, () => get(`/v1/epochs/${number === '' ? '%00' : number}`), BAD],
      ],
    ),
    ['an epoch to come', () => get('/v1/manifest?generation=1&epoch=4'), '404 epoch_unknown'],
    ['an epoch before history', () => get('/v1/manifest?generation=1&epoch=1'), '404 epoch_unknown'],
    ['an epoch of another generation', () => get('/v1/manifest?generation=2&epoch=3'), '404 epoch_unknown'],
    ['since an epoch to come', () => get('/v1/manifests?since=4'), '404 epoch_unknown'],
    ['since before history', () => get('/v1/manifests?since=0'), '404 epoch_unknown'],
    ['since the oldest there is', () => get('/v1/manifests?since=1'), '200'],
    ['since the newest', () => get('/v1/manifests?since=3'), '200'],
  ],
  blobs: [
    ['a hash that nothing has', () => get(`/v1/blobs/${'ab'.repeat(32)}`), '404 not_found'],
    [
      'upper case',
      w => get(`/v1/blobs/${toHex(w.updatable.newest.manifest.directoryHash).toUpperCase()}`),
      '404 not_found',
    ],
    ['a range beyond the end', w => get(directoryOf(w), { range: 'bytes=999999-' }), BAD.replace('400', '416')],
    ['a range', w => get(directoryOf(w), { range: 'bytes=1-2' }), '206'],
    ['several ranges', w => get(directoryOf(w), { range: 'bytes=1-2,4-5' }), '200'],
    ['what the client has', w => get(directoryOf(w), { 'if-none-match': '*' }), '304'],
  ],
  queries: [
    ['nothing', () => answer(new Uint8Array()), BAD],
    ['39 bytes', w => answer(query(w).subarray(0, 39)), BAD],
    ['another magic', w => answer(changed(query(w), 0, 0)), BAD],
    ['another format', w => answer(changed(query(w), 4, 2)), BAD],
    ['suite 0', w => answer(changed(query(w), 6, 0)), BAD],
    ['an unknown suite', w => answer(changed(query(w), 6, 3)), BAD],
    ['another database', w => answer(changed(query(w), 8, 0, 0, 0, 0)), '404 wrong_database'],
    ['another generation', w => answer(changed(query(w), 24, 2)), '404 epoch_unknown'],
    ['an epoch to come', w => answer(changed(query(w), 28, 4)), '404 epoch_unknown'],
    ['the epoch before', w => answer(changed(query(w), 28, 2)), '200'],
    ['the epoch before that', w => answer(changed(query(w), 28, 1)), '404 epoch_unknown'],
    ['epoch 0', w => answer(changed(query(w), 28, 0)), '404 epoch_unknown'],
    ['another Q', w => answer(changed(query(w), 32, 1)), BAD],
    ['another Q, of that length', w => answer(changed(query(w), 32, 1).subarray(0, 42)), BAD],
    ['a count of more than follow', w => answer(changed(query(w), 36, 2)), BAD],
    ['count 0', w => answer(changed(query(w), 36, 0).subarray(0, 40)), BAD],
    [
      'more queries than a lookup has',
      w => answer(queryAt({ ...w.updatable.newest.manifest, maxQueries: 65 }, 0, 65)),
      BAD,
    ],
    ['reserved bytes', w => answer(changed(query(w), 38, 1)), BAD],
    ['an offset of M', w => answer(queryAt(w.updatable.newest.manifest, 1)), BAD],
    ['a byte too many', w => answer(Buffer.concat([query(w), Buffer.alloc(1)])), BAD],
    ['more than any query', () => answer(new Uint8Array(20_000_000)), '413 too_large'],
    [
      'a claim of another database',
      w => answer(withClaim(query(w), { ...claimOf(w), databaseId: pseudoRandom(16) })),
      BAD,
    ],
    ['a claim without a name', w => answer(withClaim(query(w), { ...claimOf(w), requestHash: ZERO })), BAD],
    ['a registration for a claim', w => answer(Buffer.concat([query(w), registered(w)])), BAD],
    ['zeros for a claim', w => answer(Buffer.concat([query(w), new Uint8Array(80)])), BAD],
    ['a claim and a byte', w => answer(Buffer.concat([claimed(w), new Uint8Array(1)])), BAD],
    ['a claim without its last byte', w => answer(claimed(w).subarray(0, -1)), BAD],
    ['two claims', w => answer(Buffer.concat([claimed(w), fenced(w)])), BAD],
    ['a claim alone', w => answer(fenced(w)), BAD],
    ['a claim of another format', w => answer(changed(claimed(w), query(w).length + 4, 2)), BAD],
    ['a claim of an unknown hint', w => answer(withClaim(query(w), claimOf(w))), '200'],
  ],
  'the fence': [
    ['79 bytes', w => toFence(fenced(w).subarray(1)), BAD],
    ['81 bytes', w => toFence(Buffer.concat([fenced(w), Buffer.alloc(1)])), BAD],
    ['1025 bytes', () => toFence(new Uint8Array(1025)), '413 too_large'],
    ['another magic', w => toFence(changed(fenced(w), 0, 0)), BAD],
    ['another format', w => toFence(changed(fenced(w), 4, 2)), BAD],
    ['an unknown kind', w => toFence(changed(fenced(w), 6, 3)), BAD],
    ['a version of 2^53', w => toFence(changed(fenced(w), 46, 0x20)), BAD],
    ['a registration at a version', w => toFence(changed(registered(w), 40, 1)), BAD],
    ['a registration with a name', w => toFence(changed(registered(w), 79, 1)), BAD],
    ['another database', w => toFence(fenced(w, { databaseId: pseudoRandom(16) })), '404 wrong_database'],
    ['an unknown hint', w => toFence(fenced(w)), '200'],
  ],
  batches: [
    ['no signature', w => without(batch(w, EDIT), BATCH_SIGNATURE_HEADER), DENIED],
    ...['x.y', 'x', '', '00'.repeat(32)].map<Case>(header => [
      `a signature in another form, "${header}"`,
      w => resigned(w, () => header),
      DENIED,
    ]),
    ['a signature in upper case', w => resigned(w, header => header.toUpperCase()), DENIED],
    ['a signature of zeros', w => resigned(w, header => header.replace(/\w{128}$/, '00'.repeat(64))), DENIED],
    [
      'a signature of another batch, with this one’s hash put in',
      w => {
        const [one, other] = [batch(w, EDIT), batch(w, [{ op: 'delete', key: 'one' }])]
        const [hash, another] = [one, other].map(({ payload }) => toHex(blake3(payload as Uint8Array)))
        return resigned(w, () => other.headers![BATCH_SIGNATURE_HEADER]!.replace(another!, hash!))
      },
      DENIED,
    ],
    [
      'a signature for another database',
      w => signed({ databaseId: pseudoRandom(16) }, batchOn(w.updatable, EDIT)),
      DENIED,
    ],
    [
      'a signature of another batch',
      w => signed(w.updatable, batchOn(w.updatable, EDIT), batchOn(w.updatable, [])),
      DENIED,
    ],
    [
      'a signature on another base',
      w => signed(w.updatable, batchOn(w.updatable, EDIT), undefined, pseudoRandom(32)),
      DENIED,
    ],
    [
      'a signature by another key',
      w => signed(w.updatable, batchOn(w.updatable, EDIT), undefined, undefined, ed25519.keygen(pseudoRandom(32, 9))),
      DENIED,
    ],
    ['71 bytes', w => signed(w.updatable, batchOn(w.updatable, '').subarray(0, 71), undefined, pseudoRandom(32)), BAD],
    ...(
      [
        ['another magic', 0, 0],
        ['another format', 4, 2],
        ['values written in a fourth way', 6, 3],
        ['a reserved byte', 7, 1],
        ['epoch 0', 28, 0],
        ['epoch 1', 28, 1],
        ['generation 0', 24, 0],
        ['an expiry of 2^53', 38, 0x20],
      ] as const
    ).map<Case>(([what, at, by]) => [what, w => signed(w.updatable, changed(batchOn(w.updatable, EDIT), at, by)), BAD]),
    ['another database', w => batch(w, EDIT, { databaseId: pseudoRandom(16) }), '404 wrong_database'],
    ['an epoch too far', w => batch(w, EDIT, { epoch: 5 }), '409 epoch_gap'],
    ['an epoch long ago', w => batch(w, EDIT, { epoch: 2 }), '409 batch_conflict'],
    ['another base', w => batch(w, EDIT, { previousManifest: pseudoRandom(32) }), '409 batch_conflict'],
    ['another generation', w => batch(w, EDIT, { generation: 2 }), '409 batch_conflict'],
    ['an operation that cannot be', w => batch(w, [{ op: 'delete', key: 'none' }]), '422 batch_refused'],
    ['no operation', w => batch(w, ''), '422 batch_refused'],
    ['a line without end', w => batch(w, '{"op":"delete","key":"one"}'), '422 batch_refused'],
    ['a generation with a change', w => batch(w, [{ op: 'generation' }, ...EDIT]), '422 batch_refused'],
    ['more than 64 MiB', w => withHeader(batch(w, EDIT), 'content-length', `${64 * 2 ** 20 + 1}`), '413 too_large'],
    ['the status of an epoch to come', () => get('/v1/epochs/4'), '404 epoch_unknown'],
    ['the status of what is no number', () => get('/v1/epochs/one'), BAD],
    ['the status of a line end', () => get('/v1/epochs/%0a'), BAD],
    ['the status of nothing', () => get('/v1/epochs/'), '404 not_found'],
  ],
  signatures: [
    ['another key', w => signature(w, { publicKey: '11'.repeat(32) }), DENIED],
    ['no JSON', () => post('/v1/signatures', 'x'), BAD],
    ['upper case', w => signature(w, { publicKey: toHex(publicKey).toUpperCase() }), BAD],
    ['epoch 0', w => signature(w, { epoch: 0 }), BAD],
    ['a member twice', w => respelt(signature(w), '{', '{"epoch":2,'), BAD],
    ['an epoch with a point', w => respelt(signature(w), '"epoch":3', '"epoch":3.0'), BAD],
    ['an epoch with an exponent', w => respelt(signature(w), '"epoch":3', '"epoch":3e0'), BAD],
    ['a member too many', w => signature(w, { more: 'x' }), BAD],
    ['one that does not verify', w => signature(w, { signature: '11'.repeat(64) }), BAD],
    ['an epoch that is not answered', w => signature(w, { epoch: 1 }), '404 epoch_unknown'],
    ['more than 69 632 bytes', w => signature(w, { more: 'x'.repeat(69_632) }), '413 too_large'],
    ['a proof without a signature', w => signature(w, { proof: 'x' }), BAD],
    ['a signature without a proof', w => signature(w, { proofSignature: '11'.repeat(64) }), BAD],
    ['a proof of a stranger', w => signature(w, { proof: 'x', proofSignature: '11'.repeat(64) }), BAD],
    [
      'a long proof',
      w => signature(w, { proof: 'x'.repeat(32_769), proofSignature: '11'.repeat(64) }),
      '413 too_large',
    ],
  ],
}

const directoryOf = ({ updatable }: World) => `/v1/blobs/${toHex(updatable.newest.manifest.directoryHash)}`

for (const [section, cases] of Object.entries(CASES)) {
  test(`${section}: each as docs/protocol.md says`, async () => {
    const at = await world()
    const replies: [string, string][] = []
    for (const [what, message] of cases) replies.push([what, await send(at.app, message(at))])
    expect(replies).toEqual(cases.map(([what, , reply]) => [what, reply]))
    expect(at.updatable.newest.manifest.epoch).toBe(3)
  })
}

test('whatever cannot be kept is refused', async () => {
  const at = await world()
  expect(await send(at.app, toFence(registered(at)))).toBe('200')
  at.fail()
  expect(await send(at.app, toFence(registered(at, { hintId: pseudoRandom(16, 2) })))).toBe('503 not_ready')
  expect(await send(at.app, answer(claimed(at)))).toBe('503 not_ready')
  expect(await send(at.app, batch(at, EDIT))).toBe('503 not_ready')
  const otherBatch = batch(at, [{ op: 'delete', key: 'one' }])
  expect(await send(at.app, otherBatch)).toBe('503 not_ready') // that one is to come again
})

test('a server that is shutting down is healthy, not ready, and refuses queries, fence, batches and signatures', async () => {
  const at = await world()
  expect(await send(at.app, get('/readyz'))).toBe('200')
  at.app.readiness.stop('over')
  for (const message of [get('/readyz'), answer(query(at)), toFence(fenced(at)), batch(at, EDIT), signature(at)]) {
    expect(await send(at.app, message)).toBe('503 not_ready')
  }
  for (const url of ['/v1/manifest', '/healthz']) expect(await send(at.app, get(url))).toBe('200')
})

test('a database that does not change has no fence, no events and nothing for publishers', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(800), { recordBytes: 8 })
  const app = await running({ datasets: [{ dataset, publisherKeys: [publicKey] }] })
  for (const message of [
    toFence(new Uint8Array(80)),
    get('/v1/events'),
    get('/v1/epochs/1'),
    post('/v1/epochs', new Uint8Array(72)),
    post('/v1/signatures', '{}'),
  ]) {
    expect([message.url, await send(app, message)]).toEqual([message.url, '404 not_found'])
  }
})

test('a refusal has no stack, which took a third of a refused request; other errors have theirs', () => {
  expect(new Refusal('rate_limited', 'too many').stack).not.toContain('\n')
  expect(new Error('ours').stack).toContain('\n')
})

test('a refusal is one also where `node --frozen-intrinsics` has frozen Error', () => {
  const own = Object.getOwnPropertyDescriptor(Error, 'stackTraceLimit')!
  onTestFinished(() => void Object.defineProperty(Error, 'stackTraceLimit', own))
  Object.defineProperty(Error, 'stackTraceLimit', { writable: false })
  expect(new Refusal('rate_limited', 'too many').code).toBe('rate_limited')
})
