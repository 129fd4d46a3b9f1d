// A server that withholds downloads: no route gives a byte of a partition, a directory or an update list, and all else goes on.

import { parseErrorReply, parseInfo, signedProofBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { PUBLISHER, PUBLISHER_KEY } from '../../tests/support/publishing.js'
import { blobsOf } from '../dist/dataset/directory.js'
import { PublisherRecord, publish, publishList, type ServerOptions, type UpdatableDatabase } from '../dist/index.js'
import { expectRefused, keyhush } from './command.js'
import { builtDataset, builtDirectory, createIn, dataFile, listening, running, temporaryDirectory } from './helpers.js'
import { batchOn, bodyOf, FailingStorage, opened, signatureOf, storageOf } from './updatable-helpers.js'

const publisherKeys = [PUBLISHER.publicKey]
const textOf = (seed: string) => toHex(blake3(Buffer.from(seed), { dkLen: 24 }))
const LIST = `key,value\n${Array.from({ length: 60 }, (_, i) => `key ${i},${textOf(`${i}`)}\n`).join('')}`
const changes = (name: string) => [
  { op: 'edit', key: 'key 7', value: textOf(name) },
  { op: 'add', key: name, value: textOf(`added ${name}`) },
]

/** Parts of a blob that nothing else has by chance. */
function piecesOf(blob: Uint8Array): Buffer[] {
  const all = Array.from({ length: Math.floor(blob.length / 12) }, (_, i) =>
    Buffer.from(blob.subarray(12 * i, 12 * i + 12)),
  )
  return all.filter(piece => new Set(piece).size > 6)
}

/** The route table, read from the tree that Fastify prints. */
function routesOf(app: FastifyInstance): { route: string; methods: string[] }[] {
  const above: string[] = []
  return app
    .printRoutes({ commonPrefix: false })
    .split('\n')
    .flatMap(line => {
      const [, indent = '', part = '', methods] = /^([│ ]*)[├└]── (\S*)(?: \(([A-Z, ]+)\))?/.exec(line) ?? []
      const depth = indent.length / 4
      above.splice(depth, above.length, part)
      return methods === undefined ? [] : [{ route: above.join(''), methods: methods.split(', ') }]
    })
}

/** Every path and method that a server has. `words`: what may stand in a path. */
function requestsTo(app: FastifyInstance, words: readonly string[]): { method: string; path: string }[] {
  const routes = routesOf(app)
  for (const known of ['/v1/blobs/:hash', '/v1/manifests', '/healthz'])
    expect(routes.map(({ route }) => route)).toContain(known)
  const queries = ['', '?since=0', '?since=1', ...[1, 2, 3].map(epoch => `?generation=1&epoch=${epoch}`)]
  return routes.flatMap(({ route, methods }) => {
    const [fixed, parameter] = route.split(':')
    const paths = parameter === undefined ? queries.map(query => route + query) : words.map(word => fixed + word)
    return methods.flatMap(method => paths.map(path => ({ method, path })))
  })
}

/** All that comes back, of headers and bodies; of a stream its first piece. */
async function everythingFrom(app: FastifyInstance, url: string, hashes: readonly string[]): Promise<Buffer> {
  const came: Buffer[] = []
  for (const { method, path } of requestsTo(app, [...hashes, '1', '2', '3'])) {
    const etag = `"${path.split('/').at(-1)}"`
    const isPost = method === 'POST'
    const variants: Record<string, string>[] =
      isPost || path.includes('?')
        ? [{}]
        : [{}, { range: 'bytes=0-' }, { range: 'bytes=-4096', 'if-range': etag }, { 'if-none-match': etag }]
    for (const headers of variants) {
      const reply = await fetch(url + path, { method, headers, ...(isPost && { body: hashes.join() }) })
      came.push(Buffer.from([...reply.headers].join()))
      for await (const piece of reply.body ?? []) {
        came.push(Buffer.from(piece))
        if (reply.headers.get('content-type') === 'application/x-ndjson') break
      }
    }
  }
  return Buffer.concat(came)
}

/** Hashes and bytes of all that a store would give. */
async function downloadsOf(updatable: UpdatableDatabase): Promise<Map<string, Uint8Array>> {
  const manifests = [2, 3].map(epoch => updatable.find(1, epoch)!.manifest)
  const hashes = manifests.flatMap(manifest => blobsOf(manifest).map(({ hash }) => toHex(hash)))
  return new Map(
    await Promise.all([...new Set(hashes)].map(async hash => [hash, await bodyOf(updatable, hash)] as const)),
  )
}

const KINDS = {
  async 'a store'(options: Partial<ServerOptions>) {
    const updatable = await opened(await storageOf('a.csv', LIST, { maxValueBytes: 60, partitions: 2 }))
    for (const name of ['second', 'third']) await updatable.publish(batchOn(updatable, changes(name)))
    const downloads = await downloadsOf(updatable)
    return { ...(await listening({ datasets: [{ updatable, publisherKeys }], ...options })), downloads }
  },
  async 'a dataset'(options: Partial<ServerOptions>) {
    const dataset = await builtDataset('a.csv', LIST, { partitions: 2 })
    const all = await running({ datasets: [{ dataset }] })
    const hashes = blobsOf(dataset.manifest).map(({ hash }) => toHex(hash))
    const fetched = hashes.map(async hash => [hash, (await all.inject(`/v1/blobs/${hash}`)).rawPayload] as const)
    return {
      ...(await listening({ datasets: [{ dataset }], ...options })),
      downloads: new Map(await Promise.all(fetched)),
    }
  },
}

test.each(Object.keys(KINDS) as (keyof typeof KINDS)[])('%s: no route gives a byte of what is withheld', async kind => {
  for (const blobs of [true, false]) {
    const { app, url, downloads } = await KINDS[kind]({ blobs })
    expect(parseInfo((await app.inject('/v1/info')).json()).offers.blobs).toBe(blobs)
    const all = await everythingFrom(app, url, [...downloads.keys()])
    const given = [...downloads].filter(([, blob]) => piecesOf(blob).some(piece => all.includes(piece)))
    expect(given.map(([hash]) => hash)).toEqual(blobs ? [...downloads.keys()] : [])
  }
})

test('what is withheld is not found, as what there never was', async () => {
  const { app, downloads } = await KINDS['a store']({ blobs: false })
  const replies = new Set<string>()
  for (const hash of [...downloads.keys(), 'ab'.repeat(32)]) {
    for (const method of ['GET', 'HEAD'] as const) {
      for (const headers of [{}, { 'if-none-match': '*' }, { range: 'bytes=0-0' }]) {
        const reply = await app.inject({ method, url: `/v1/blobs/${hash}`, headers })
        const { date, ...others } = reply.headers
        replies.add(JSON.stringify([reply.statusCode, method, others, reply.body]))
      }
    }
  }
  expect(replies.size).toBe(2)
  const { code, message } = parseErrorReply((await app.inject(`/v1/blobs/${'ab'.repeat(32)}`)).body)
  expect([code, message]).toEqual(['not_found', expect.stringContaining('withholds downloads')])
})

test('proofs of signatures are given', async () => {
  const updatable = await opened(await storageOf('a.csv', LIST))
  const app = await running({ datasets: [{ updatable, publisherKeys }], blobs: false })
  const proof = 'a proof'
  const hash = blake3(Buffer.from(proof))
  const message = signedProofBytes(updatable.databaseId, 1, hash)
  const proofSignature = toHex(ed25519.sign(message, PUBLISHER.secretKey))
  await updatable.addSignature({ ...signatureOf(updatable), proof, proofSignature })
  expect((await app.inject(`/v1/blobs/${toHex(hash)}`)).payload).toBe(proof)
})

/** Two servers of one list that withhold it, and their publisher. */
async function published() {
  const dir = await builtDirectory('a.csv', LIST, { maxValueBytes: 60 })
  const begin = async () => {
    const updatable = await opened(await createIn(new FailingStorage(), dir))
    return { updatable, ...(await listening({ datasets: [{ updatable, publisherKeys }], blobs: false })) }
  }
  const servers = [await begin(), await begin()]
  const [{ updatable }] = servers as [(typeof servers)[0]]
  const record = new PublisherRecord()
  const { databaseId, newest } = updatable
  await record.addManifest({ databaseId: toHex(databaseId), epoch: 1, hash: newest.manifestHash })
  const options = { key: PUBLISHER, record, servers: servers.map(({ url }) => url) }
  await publish(options)
  return { servers, options }
}

test('export, audit and publish --list say that downloads are withheld', async () => {
  const { servers, options } = await published()
  const [{ url }] = servers as [(typeof servers)[0]]
  const [out, store] = [`${await temporaryDirectory()}/out`, `${await temporaryDirectory()}/audit`]
  const withheld = 'withholds downloads'
  const key = ['--publisher-key', PUBLISHER_KEY]
  await expectRefused(keyhush('export', '--server', url, ...key, '--out', out), withheld)
  await expectRefused(
    keyhush('audit', '--servers', options.servers.join(), ...key, '--store', store, '--once'),
    withheld,
    4,
  )
  const data = await dataFile('new.csv', LIST.replace('key 9,', 'key 99,'))
  await expect(publishList({ ...options, data })).rejects.toThrow(withheld)
})
