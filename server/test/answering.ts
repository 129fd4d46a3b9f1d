// A server with threads that answer, and what asks it.

import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import type { Worker } from 'node:worker_threads'
import { expect, onTestFinished } from 'vitest'
import { createServer, type ServerOptions } from '../dist/index.js'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** A server with two threads, what asks each of its ports (the first is the server's own), and its threads. */
export async function serving(options: ServerOptions) {
  const workers: Worker[] = []
  const begun = (worker: Worker) => workers.push(worker)
  process.on('worker', begun)
  onTestFinished(() => void process.off('worker', begun))
  const app = await createServer({ answerThreads: 2, ...options })
  const agent = new Agent({ keepAlive: true })
  onTestFinished(async () => {
    agent.destroy()
    await app.close()
  })
  const own = Number(new URL(await app.listen({ host: '127.0.0.1', port: 0 })).port)
  const addresses = await app.answerThreads!.listen({ host: '127.0.0.1', port: 0 })
  const ports = [own, ...addresses.map(({ port }) => port)]
  const send = (port: number, body?: Uint8Array, path = '/v1/answer', more: object = {}) =>
    new Promise<Reply>((resolve, reject) => {
      const sent = request({ port, path, agent, method: 'POST', host: '127.0.0.1', ...more }, reply => {
        const chunks: Buffer[] = []
        reply.on('data', chunk => chunks.push(chunk)).on('error', reject)
        reply.on('end', () => {
          const { date: _, ...headers } = reply.headers
          resolve({ status: reply.statusCode!, headers, body: Buffer.concat(chunks) })
        })
      })
      sent.on('error', reject).end(body)
    })
  /** From every port; expects all of them to be the same. */
  const sendAll = async (...of: [body?: Uint8Array, path?: string, more?: object]): Promise<Reply> => {
    const [first, ...others] = await Promise.all(ports.map(port => send(port, ...of)))
    for (const other of others) expect(other).toEqual(first)
    return first!
  }
  return { app, ports, send, sendAll, workers }
}
