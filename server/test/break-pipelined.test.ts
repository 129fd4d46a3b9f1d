// Replies that wait behind another one of their connection never get a socket, and so never hear that it has closed.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { BATCH_SIGNATURE_HEADER, decodeBatch, encodeBatchSignature, signedBatchBytes } from '@pirouette/protocol'
import { fastify } from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Unsent } from '../dist/http/unsent.js'
import { MemoryStorage, type PirouetteOptions, pirouettePlugin, UpdatableDatabase } from '../dist/index.js'
import { builtDataset, pseudoRandom, queryAt } from './helpers.js'
import { batchOn } from './updatable-helpers.js'

const MIB = 1024 * 1024

async function served(options: PirouetteOptions) {
  const app = fastify()
  const statuses: number[] = []
  app.addHook('onSend', async (_request, reply) => void statuses.push(reply.statusCode))
  await app.register(pirouettePlugin, options)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => {
    app.server.closeAllConnections()
    return app.close()
  })
  return { url, port: Number(new URL(url).port), statuses }
}

async function deaf(port: number, bytes: Buffer): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.pause()
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  socket.write(bytes)
  return socket
}

test('what pipelined replies had reserved is given back when their connection has gone', async () => {
  const dataset = await builtDataset('a.bin', pseudoRandom(32 * 65_536), { recordBytes: 65_536, proofs: 'tags' })
  const query = Buffer.from(queryAt(dataset.manifest, 0, 1, 'tags'))
  const unsent = new Unsent({ total: 64 * MIB })
  const { url, port, statuses } = await served({ dataset, unsent })
  const request = Buffer.concat([
    Buffer.from(`POST /v1/answer HTTP/1.1\r\nHost: x\r\nContent-Length: ${query.length}\r\n\r\n`),
    query,
  ])
  for (let i = 0; i < 4; i++) {
    const before = statuses.length
    const socket = await deaf(port, Buffer.concat(Array(10).fill(request)))
    await vi.waitFor(() => expect(statuses.length).toBeGreaterThanOrEqual(before + 5), { timeout: 10_000 })
    socket.destroy()
  }
  await vi.waitFor(() => expect(unsent.bytes).toBe(0), { timeout: 5000 })
  const reply = await fetch(`${url}/v1/answer`, { method: 'POST', body: new Uint8Array(query) })
  expect(reply.status).toBe(200)
}, 60_000)

async function updatableOf() {
  const storage = new MemoryStorage()
  const dataset = await builtDataset('a.csv', 'key,value\none,first\ntwo,other\n')
  await UpdatableDatabase.create(storage, dataset)
  const updatable = await UpdatableDatabase.open(storage)
  onTestFinished(() => updatable.close())
  return updatable
}

const STREAM = 'GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n'

test('event streams that were pipelined end with their connection', async () => {
  const { url, port, statuses } = await served({ updatable: await updatableOf() })
  const socket = await deaf(port, Buffer.from(STREAM.repeat(256)))
  await vi.waitFor(() => expect(statuses.length).toBe(256), { timeout: 10_000 })
  socket.destroy()
  await vi.waitFor(
    async () => {
      const reply = await fetch(`${url}/v1/events`)
      await reply.body?.cancel()
      expect(reply.status).toBe(200)
    },
    { timeout: 3000 },
  )
}, 60_000)

test('nobody keeps a publisher out by sending its last signature again, pipelined', async () => {
  const updatable = await updatableOf()
  const secret = new Uint8Array(32).fill(7)
  const publicKey = ed25519.getPublicKey(secret)
  const { url, port, statuses } = await served({ updatable, publisherKeys: [publicKey] })
  const signedHeader = (body: Uint8Array) => {
    const { databaseId, previousManifest } = decodeBatch(body)
    const batchHash = blake3(body)
    const signature = ed25519.sign(signedBatchBytes({ databaseId, previousManifest, batchHash }), secret)
    return encodeBatchSignature({ publicKey, previousManifest, batchHash, signature })
  }
  const publish = async (body: Uint8Array) =>
    (
      await fetch(`${url}/v1/epochs`, {
        method: 'POST',
        body: new Uint8Array(body),
        headers: { [BATCH_SIGNATURE_HEADER]: signedHeader(body) },
      })
    ).status
  const first = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'FIRST' }])
  expect(await publish(first)).toBe(200)
  // The other server's operator was sent the same header: it need not have the key.
  const again = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signedHeader(first)}\r\nContent-Length: 1\r\n\r\nx`
  const before = statuses.length
  const socket = await deaf(port, Buffer.from(STREAM + again.repeat(4)))
  await vi.waitFor(() => expect(statuses.length).toBe(before + 5), { timeout: 10_000 })
  socket.destroy()
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  await vi.waitFor(async () => expect(await publish(next)).toBe(200), { timeout: 3000 })
}, 60_000)
