// A server on a socket of its own, and connections that send and do not read.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { BATCH_SIGNATURE_HEADER } from '@keyhush/protocol'
import { type FastifyInstance, fastify } from 'fastify'
import { onTestFinished } from 'vitest'
import { PUBLISHER, signed } from '../../tests/support/publishing.js'
import { Connections } from '../dist/http/limits/connections.js'
import { type KeyhushOptions, keyhushPlugin, type UpdatableDatabase } from '../dist/index.js'
import { opened, storageOf } from './updatable-helpers.js'

/** Listens until the test has ended, for `most` connections. `statuses`: of all replies so far. */
export async function served(
  options: KeyhushOptions,
  most?: number,
): Promise<{
  app: FastifyInstance
  url: string
  port: number
  statuses: number[]
}> {
  const app = fastify({ trustProxy: true })
  Connections.of(app.server, { most })
  const statuses: number[] = []
  app.addHook('onSend', async (_request, reply) => void statuses.push(reply.statusCode))
  await app.register(keyhushPlugin, options)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => {
    app.server.closeAllConnections()
    return app.close()
  })
  return { app, url, port: Number(new URL(url).port), statuses }
}

/** A connection that sends and does not read. */
export async function deaf(port: number, ...requests: readonly (string | Uint8Array)[]): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {}) // the server may hang up
  socket.pause()
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  for (const request of requests) socket.write(request)
  return socket
}

/** Sends, and resolves to what has come when `until` has, or the connection is gone. */
export async function exchanged(port: number, sent: string | Buffer, until?: RegExp): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  let received = ''
  const over = new Promise<void>(resolve => {
    socket.on('error', () => {}).on('close', () => resolve())
    socket.setEncoding('latin1').on('data', chunk => {
      received += chunk
      if (until?.test(received)) resolve()
    })
  })
  socket.write(sent)
  await over
  return received
}

/** An updatable database of two keys, in memory. */
export async function twoKeys(): Promise<UpdatableDatabase> {
  return await opened(await storageOf('a.csv', 'key,value\none,first\ntwo,other\n'))
}

export const publisherKeys: readonly Uint8Array[] = [PUBLISHER.publicKey]

/** The header with which a batch is signed by the one of `publisherKeys`. */
export function signatureOf(batch: Uint8Array): string {
  return signed(batch)[BATCH_SIGNATURE_HEADER]!
}

/** Publishes a batch; the status of the reply. */
export async function publish(url: string, batch: Uint8Array): Promise<number> {
  return (await fetch(`${url}/v1/epochs`, { method: 'POST', body: new Uint8Array(batch), headers: signed(batch) }))
    .status
}
