// A whole server of docs/protocol.md on node:http, for one database of one epoch. It is not made to withstand anybody.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { bytesToHex } from '@noble/hashes/utils.js'
import type { Dataset } from './dataset.js'
import { hash } from './hash.js'
import { decodeQuery, encodeAnswer, suiteIn } from './message.js'

export async function startReferenceServer(dataset: Dataset): Promise<{ url: string; close(): Promise<void> }> {
  const { manifest, manifestBytes, database, blobs } = dataset
  const { generation, epoch } = manifest

  const reply = (path: string, body: Uint8Array): Uint8Array | object | undefined => {
    switch (path) {
      case '/healthz':
      case '/readyz':
        return {}
      case '/v1/manifest':
      case `/v1/manifest?generation=${generation}&epoch=${epoch}`:
        return manifestBytes
      case '/v1/info': {
        const epochs = [{ generation, epoch, manifest: bytesToHex(hash(manifestBytes)) }]
        const offers = { proofs: ['merkle', 'tags'], updates: false, push: false, blobs: true }
        return {
          format: 1,
          software: 'reference/0',
          database: bytesToHex(manifest.databaseId),
          epochs,
          offers,
          signatures: [],
        }
      }
      case '/v1/answer': {
        const suite = suiteIn(body) === 2 ? 2 : 1
        const vectors = decodeQuery(manifest, body, suite)
        return encodeAnswer(manifest, vectors.length, database.answer(vectors, suite), suite)
      }
      default:
        return blobs.get(path.replace('/v1/blobs/', ''))
    }
  }

  const server = createServer(async (request, response) => {
    const fail = (status: number, code: string, error?: unknown) =>
      response.writeHead(status).end(JSON.stringify({ code, message: String(error) }))
    try {
      const made = reply(request.url!, new Uint8Array(await buffer(request)))
      if (made === undefined) fail(404, request.url!.startsWith('/v1/manifest') ? 'epoch_unknown' : 'not_found')
      else response.end(made instanceof Uint8Array ? made : JSON.stringify(made))
    } catch (error) {
      fail(400, 'bad_request', error)
    }
  })
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => void server.close(resolve))
    },
  }
}
