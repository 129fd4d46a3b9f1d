// Two real servers in this process for an app's own tests. Each can be told to lie, stall or hang up, so that a test can see what the
// app shows then.

import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { toHex } from '@keyhush/protocol'
import type { FastifyInstance } from 'fastify'
import { PublishError } from '../base/errors.js'
import { UpdatableDatabase } from '../database/updatable.js'
import { buildDataset } from '../dataset/build.js'
import { loadDataset } from '../dataset/load.js'
import { createServer } from '../http/server.js'
import { createKeyFile } from '../publisher/files.js'
import { publish } from '../publisher/publish.js'
import { PublisherRecord } from '../publisher/record.js'
import { MemoryStorage } from '../storage/memory.js'

/**
 * What a server does, and what an app then sees of it.
 *
 * - `lies`: a bit of every answer and download is another: TamperedError, which names it (in mode `instant` it names none)
 * - `forks`: it shows another database than the other server: ServersDisagreeError
 * - `truncates`: answers end half-way: ProtocolError
 * - `stalls`: lookups are never answered, until it does something else: NetworkError after a deadline
 * - `hangs up`: NetworkError at once
 * - `limits`: RateLimitedError
 * - `lags`: it takes no batches, so that the other server alone has the next epoch: the app sees what both have
 */
export type Misbehaviour = 'lies' | 'forks' | 'truncates' | 'stalls' | 'hangs up' | 'limits' | 'lags'

/** A line of a batch (docs/protocol.md, Publishing). */
export type Operation =
  | { readonly op: 'add' | 'edit'; readonly key: string; readonly value: string }
  | { readonly op: 'delete'; readonly key: string }

export interface TestServers {
  /** for `open()` */
  readonly servers: readonly [string, string]
  readonly publisherKey: string
  /** What one of them does from now on; undefined: what it should. Lookups it has left unanswered are hung up on. */
  misbehave(server: 0 | 1, how: Misbehaviour | undefined): void
  /** Makes the next epoch at both, but for one that lags, and signs it. */
  publish(operations: readonly Operation[]): Promise<void>
  close(): Promise<void>
}

/**
 * Starts two servers on free ports of this machine. `data`: keys and values, or the path of a file that `keyhush build` takes,
 * CSV say.
 * @throws {BuildError} for data that cannot be a database
 * @example
 * const { servers, publisherKey, misbehave, close } = await startServers({ otter: 'river' })
 * const map = await open({ servers, publisherKey, mode: 'full' })
 * misbehave(1, 'lies')
 * await map.get('otter') // TamperedError
 */
export async function startServers(data: Readonly<Record<string, string>> | string): Promise<TestServers> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-testing-'))
  const [file, out] = [join(folder, 'data.jsonl'), join(folder, 'dataset')]
  if (typeof data === 'object') {
    const lines = Object.entries(data).map(([key, value]) => `${JSON.stringify({ key, value })}\n`)
    await writeFile(file, lines.join(''))
  }
  const built = await buildDataset({ data: typeof data === 'object' ? file : data, out }).catch(async error => {
    await rm(folder, { recursive: true })
    throw error
  })
  const { databaseId, manifest, manifestHash: hash } = built
  const key = await createKeyFile(join(folder, 'key'))
  const record = new PublisherRecord()
  await record.addManifest({ databaseId, epoch: manifest.epoch, hash })
  const dataset = await loadDataset(out)
  const start = async () => {
    const storage = new MemoryStorage()
    await UpdatableDatabase.create(storage, dataset)
    return await TestServer.start(await UpdatableDatabase.open(storage), key.publicKey)
  }
  const both = [await start(), await start()] as const
  dataset.close()
  await rm(folder, { recursive: true })
  const servers = [both[0].url, both[1].url] as const
  await publish({ servers, key, record })
  return {
    servers,
    publisherKey: toHex(key.publicKey),
    misbehave: (server, how) => both[server].misbehave(how),
    async publish(operations) {
      const batch = Buffer.from(operations.map(operation => `${JSON.stringify(operation)}\n`).join(''))
      await publish({ servers, key, record, operations: batch, generation: false }).catch((error: unknown) => {
        if (!(error instanceof PublishError) || both.every(({ how }) => how !== 'lags')) throw error
      })
    },
    async close() {
      for (const server of both) await server.close()
    },
  }
}

const HEADER_BYTES = 40 // of an answer: a lie about the header would only be a malformed answer
const QUERIES = /^\/v1\/(answer|instant)$/

class TestServer {
  how: Misbehaviour | undefined
  readonly #held = new Set<ServerResponse>()
  readonly #app: FastifyInstance
  readonly #database: UpdatableDatabase
  readonly #http = createHttpServer((request, response) => {
    this.#reply(request, response).catch(() => response.destroy())
  })

  private constructor(app: FastifyInstance, database: UpdatableDatabase) {
    this.#app = app
    this.#database = database
  }

  static async start(database: UpdatableDatabase, publisherKey: Uint8Array): Promise<TestServer> {
    const app = await createServer({ datasets: [{ updatable: database, publisherKeys: [publisherKey] }] })
    const server = new TestServer(app, database)
    await once(server.#http.listen(0, '127.0.0.1'), 'listening')
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
  }

  misbehave(how: Misbehaviour | undefined): void {
    this.how = how
    for (const response of this.#held) response.destroy()
    this.#held.clear()
  }

  async close(): Promise<void> {
    this.#http.closeAllConnections()
    await once(this.#http.close(), 'close')
    await this.#app.close()
    await this.#database.close()
  }

  async #reply(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { how } = this
    const { pathname: path } = new URL(request.url ?? '/', 'http://server')
    const isQuery = QUERIES.test(path)
    if (how === 'hangs up') response.destroy()
    else if (how === 'stalls' && isQuery) this.#held.add(response)
    else if (how === 'limits') await this.#refuse(response, 429, 'rate_limited')
    else if (how === 'lags' && request.method === 'POST' && path === '/v1/epochs') {
      await this.#refuse(response, 503, 'not_ready')
    } else if (
      (how === 'forks' && path === '/v1/manifest') ||
      (how === 'truncates' && isQuery) ||
      (how === 'lies' && (isQuery || path.startsWith('/v1/blobs/')))
    ) {
      await this.#change(how, request, response, isQuery ? HEADER_BYTES : 0)
    } else this.#app.routing(request, response)
  }

  async #change(how: Misbehaviour, request: IncomingMessage, response: ServerResponse, head: number): Promise<void> {
    const { method, url, headers } = request
    const genuine = await this.#app.inject({
      ...{ method: method as 'GET' | 'POST', url: url!, headers },
      ...(method === 'POST' && { payload: await buffer(request) }),
    })
    let bytes = Buffer.from(genuine.rawPayload)
    if (genuine.statusCode === 200) {
      // The last bytes of a manifest are a partition's hash.
      if (how === 'truncates') bytes = bytes.subarray(0, bytes.length >> 1)
      else bytes[how === 'forks' ? bytes.length - 1 : head]! ^= 1
    }
    const kept = Object.entries(genuine.headers).filter(([name]) => !/^(content-length|transfer-encoding)$/.test(name))
    for (const [name, value] of kept) response.setHeader(name, value as string)
    response.writeHead(genuine.statusCode, { 'content-length': bytes.length }).end(bytes)
  }

  async #refuse(response: ServerResponse, status: number, code: string): Promise<void> {
    const headers = { 'content-type': 'application/json', 'access-control-allow-origin': '*', 'retry-after': '1' }
    response.writeHead(status, headers).end(JSON.stringify({ code, message: 'as a test has asked for' }))
  }
}
