// What a publisher sends to one server, the other server's operator has too.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { BATCH_SIGNATURE_HEADER, decodeBatch, encodeBatchSignature, signedBatchBytes } from '@pirouette/protocol'
import { fastify } from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { MemoryStorage, type PirouetteOptions, pirouettePlugin, UpdatableDatabase } from '../dist/index.js'
import { builtDataset } from './helpers.js'
import { batchOn } from './updatable-helpers.js'

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

async function updatableOf() {
  const storage = new MemoryStorage()
  const dataset = await builtDataset('a.csv', 'key,value\none,first\ntwo,other\n')
  await UpdatableDatabase.create(storage, dataset)
  const updatable = await UpdatableDatabase.open(storage)
  onTestFinished(() => updatable.close())
  return updatable
}

test('nobody keeps a publisher out by sending headers of batches that were published before, and no bodies', async () => {
  const updatable = await updatableOf()
  const secret = new Uint8Array(32).fill(7)
  const publicKey = ed25519.getPublicKey(secret)
  const { url, port } = await served({ updatable, publisherKeys: [publicKey] })
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
  const again = `POST /v1/epochs HTTP/1.1\r\nHost: x\r\n${BATCH_SIGNATURE_HEADER}: ${signedHeader(first)}\r\nContent-Length: 60000000\r\n\r\n`
  for (let i = 0; i < 4; i++) await deaf(port, Buffer.from(again))
  await vi.waitFor(async () => expect((await fetch(`${url}/v1/info`)).status).toBe(200)) // they have arrived
  const next = batchOn(updatable, [{ op: 'edit', key: 'one', value: 'fresh' }])
  await vi.waitFor(async () => expect(await publish(next)).toBe(200), { timeout: 3000 })
}, 60_000)
