// The publisher sends the same batches to both servers in the same order, never more than one epoch apart. It repeats a batch
// until both have accepted it.

import { encodeBatch } from '@keyhush/protocol'
import { hash } from '../../interop/reference/hash.js'
import { decodeManifest } from '../../interop/reference/manifest.js'
import { signed } from '../../support/publishing.js'
import { SERVERS, type ServerName } from '../network.js'
import type { Operation, Version } from './model.js'
import type { Asked, Reply } from './servers.js'

/** The one operation of a batch that begins a new generation. */
export interface Renewal {
  readonly op: 'generation'
  readonly headroom: number
}

/** How the publisher reaches a server; rejects if it cannot. */
export type Ask = (server: ServerName, path: string, asked: Asked) => Promise<Reply>

interface Batch {
  readonly body: Uint8Array
  readonly epoch: number
  /** sent, though a reply may not have come */
  readonly sent: Set<ServerName>
  /** servers that have confirmed it */
  readonly taken: Set<ServerName>
  /** the manifest's hash that the first of them returned */
  manifest: string | undefined
}

export class Publisher {
  /** what every epoch holds, by number */
  readonly versions = new Map<number, Version>()
  newest: Version
  /** not accepted by both yet */
  #batch: Batch | undefined
  #earlier: Batch | undefined
  readonly #ask: Ask

  constructor(first: Version, ask: Ask) {
    this.newest = first
    this.versions.set(first.epoch, first)
    this.#ask = ask
  }

  /** Whether both servers have the newest epoch. */
  get atRest(): boolean {
    return this.#batch === undefined
  }

  /** The last epoch of a generation. */
  lastOf(generation: number): number {
    const versions = [...this.versions.values()].filter(({ shape }) => shape.generation === generation)
    return versions.at(-1)!.epoch
  }

  /** The newest epoch that both have confirmed. */
  get agreed(): number {
    return this.newest.epoch - (this.atRest ? 0 : 1)
  }

  /** The newest epoch that both can have. */
  get possible(): number {
    return this.#batch && this.#batch.sent.size < SERVERS.length ? this.newest.epoch - 1 : this.newest.epoch
  }

  /** Servers that do not have the batch under way yet. */
  get lacking(): readonly ServerName[] {
    return this.#batch === undefined ? [] : SERVERS.filter(server => !this.#batch!.taken.has(server))
  }

  /** Makes the next epoch's batch, on the manifest that `server` has. Nothing is published yet. */
  async begin(operations: readonly (Operation | Renewal)[], next: Version, server: ServerName): Promise<void> {
    const body = await this.#encode(operations, server)
    this.#earlier = undefined
    this.#batch = { body, epoch: next.epoch, sent: new Set(), taken: new Set(), manifest: undefined }
    this.versions.set(next.epoch, next)
    this.newest = next
  }

  /** Sends the batch under way to a server. Resolves to whether it accepted it; false: it could not be reached. */
  async deliver(server: ServerName): Promise<boolean> {
    const batch = this.#batch
    if (batch === undefined) return true
    batch.sent.add(server)
    const reply = await this.#post(server, batch.body)
    if (reply === undefined) return false
    const status = parse(reply) as { epoch?: number; manifest?: string }
    if (reply.status !== 200 || status.epoch !== batch.epoch) {
      throw new Error(`${server} does not take the batch of epoch ${batch.epoch}: ${JSON.stringify(status)}`)
    }
    batch.manifest ??= status.manifest
    if (batch.manifest !== status.manifest) throw new Error(`the servers make two manifests of epoch ${batch.epoch}`)
    batch.taken.add(server)
    if (batch === this.#batch && batch.taken.size === SERVERS.length) {
      this.#earlier = batch
      this.#batch = undefined
    }
    return true
  }

  /** Sends the last batch again, which both have. */
  async repeat(server: ServerName): Promise<void> {
    const batch = this.#earlier
    const reply = batch && (await this.#post(server, batch.body))
    if (batch === undefined || reply === undefined) return
    const { manifest } = parse(reply) as { manifest?: string }
    if (reply.status !== 200 || manifest !== batch.manifest) throw new Error(`${server} takes a batch twice`)
  }

  /** Sends an invalid batch, whose operation `wrong` the server must name. */
  async offend(operations: readonly Operation[], wrong: number, server: ServerName): Promise<void> {
    const reply = await this.#post(server, await this.#encode(operations, server))
    if (reply === undefined) return
    const { code, line } = parse(reply) as { code?: string; line?: number }
    if (reply.status !== 422 || code !== 'batch_refused' || line !== wrong + 1) {
      throw new Error(`${server} should refuse a batch for its line ${wrong + 1}: ${reply.status} ${code} ${line}`)
    }
  }

  async #encode(operations: readonly (Operation | Renewal)[], server: ServerName): Promise<Uint8Array> {
    const { body: bytes } = await this.#ask(server, '/v1/manifest', { method: 'GET' })
    const { databaseId, generation, epoch } = decodeManifest(bytes)
    if (epoch !== this.newest.epoch) throw new Error(`${server} is at epoch ${epoch}, not at ${this.newest.epoch}`)
    const hex = (_name: string, part: unknown) =>
      part instanceof Uint8Array ? Buffer.from(part).toString('hex') : part
    const lines = operations.map(operation => JSON.stringify(operation, hex))
    return encodeBatch({
      ...{ encoding: 'hex', databaseId, generation, epoch: epoch + 1, expires: 0 },
      previousManifest: hash(bytes),
      operations: new TextEncoder().encode(lines.map(line => `${line}\n`).join('')),
    })
  }

  async #post(server: ServerName, body: Uint8Array): Promise<Reply | undefined> {
    const headers = signed(body)
    const reply = await this.#ask(server, '/v1/epochs', { method: 'POST', body, headers }).catch(() => undefined)
    return reply?.status === 503 ? undefined : reply
  }
}

function parse({ body }: Reply): unknown {
  return JSON.parse(new TextDecoder().decode(body))
}
