// Servers in memory, a publisher's record, and a publisher that is disturbed at an effect: a request or a write of the record.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeBatch, decodeManifest, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect } from 'vitest'
import type { SigningKey } from '../../tests/support/publishing.js'
import {
  createServer,
  MemoryStorage,
  PublishError,
  PublisherRecord,
  type PublishOptions,
  publish,
  UpdatableDatabase,
} from '../dist/index.js'
import { createIn } from './helpers.js'

/** What happens at an effect. */
export const FATES = ['killed before', 'killed after', 'request lost', 'reply lost', 'late'] as const
export interface Disturbance {
  readonly effect: number
  readonly fate: (typeof FATES)[number]
  /** `late`: the request arrives before this effect of the next run */
  readonly arrives: number
}

export class Killed extends Error {}

export interface Server {
  readonly inject: (method: 'GET' | 'POST', path: string, headers: object, payload?: Buffer) => Promise<Response>
  epoch: number
  /** `epoch key` */
  readonly signed: Set<string>
  /** its newest epoch */
  readonly updatable: () => UpdatableDatabase
  /** ends it, and begins it from its storage */
  readonly restart: () => Promise<void>
  readonly close: () => Promise<void>
}

export const operationsOf = (batch: Uint8Array) => Buffer.from(decodeBatch(batch).operations).toString()

/** A record whose writes are effects. */
class DisturbedRecord extends PublisherRecord {
  readonly #world: World

  constructor(world: World) {
    super()
    this.#world = world
  }

  override addManifest(...args: Parameters<PublisherRecord['addManifest']>): Promise<void> {
    return this.#world.effect(() => super.addManifest(...args), false)
  }

  override addBatch(...args: Parameters<PublisherRecord['addBatch']>): Promise<void> {
    return this.#world.effect(() => super.addBatch(...args), false)
  }
}

/** Servers, a record, and the two rules that hold at any moment. */
export class World {
  readonly servers = new Map<string, Server>()
  readonly record: PublisherRecord = new DisturbedRecord(this)
  /** rules that a run has broken, whatever it came to */
  readonly broken: string[] = []
  effects = 0
  /** requests that are more than questions */
  sent = 0
  /** before each request */
  pause = async () => {}
  /** after a server took a batch */
  onEpoch = async (_server: Server) => {}
  disturbance: Disturbance | undefined
  /** a request that is still on its way */
  late: (() => Promise<unknown>) | undefined
  #isDead = false
  /** operations by the hash of their batch */
  readonly #operations = new Map<string, string>()

  private constructor(
    readonly keys: readonly SigningKey[],
    readonly alone: boolean,
  ) {}

  static async begin(dataset: string, count: number, keys: readonly SigningKey[]): Promise<World> {
    const world = new World(keys, count === 1) // a single server's publisher has a copy
    for (let i = 0; i < Math.max(2, count); i++) {
      const storage = await createIn(new MemoryStorage(), dataset)
      const start = async () => {
        const updatable = await UpdatableDatabase.open(storage)
        const publisherKeys = keys.map(({ publicKey }) => publicKey)
        return { updatable, app: await createServer({ datasets: [{ updatable, publisherKeys }], instant: false }) }
      }
      let running = await start()
      const close = async () => {
        await running.app.close()
        await running.updatable.close()
      }
      const restart = async () => {
        await close()
        running = await start()
      }
      const inject: Server['inject'] = async (method, url, headers, payload) => {
        const reply = await running.app.inject({ method, url, headers: { ...headers }, ...(payload && { payload }) })
        return new Response(new Uint8Array(reply.rawPayload), {
          status: reply.statusCode,
          headers: { date: String(reply.headers['date']) },
        })
      }
      const updatable = () => running.updatable
      world.servers.set(`http://${'abc'[i]}.example`, {
        inject,
        epoch: 1,
        signed: new Set(),
        updatable,
        restart,
        close,
      })
    }
    const bytes = await readFile(join(dataset, 'manifest.bin'))
    const { databaseId, epoch } = decodeManifest(bytes)
    await world.record.addManifest({ databaseId: toHex(databaseId), epoch, hash: toHex(blake3(bytes)) })
    await world.perform(publish)
    return world
  }

  async end(): Promise<void> {
    for (const { close } of this.servers.values()) await close()
  }

  /** Has a publisher work from its first step, with what disturbs it. */
  async perform<T>(
    work: (options: PublishOptions) => Promise<T>,
    disturbance?: Disturbance,
    record: PublisherRecord = this.record,
  ): Promise<T> {
    Object.assign(this, { effects: 0, sent: 0, disturbance })
    this.#isDead = false
    return await work({
      servers: [...this.servers.keys()],
      own: this.alone,
      key: this.keys,
      record,
      fetch: (url, init) => this.fetch(`${url}`, init),
    })
  }

  /** Something that lasts, and is disturbed if it is its turn. */
  async effect<T>(work: () => Promise<T>, isRequest: boolean): Promise<T> {
    if (this.#isDead) throw new Killed()
    const { effect, fate, arrives } = this.disturbance ?? { effect: 0, fate: undefined, arrives: 0 }
    const number = ++this.effects
    if (effect === 0 && number === arrives) await this.arrive()
    if (number !== effect) return await work()
    if (fate === 'killed before' || fate === 'killed after') {
      this.#isDead = true
      if (fate === 'killed after') await work()
      throw new Killed()
    }
    if (!isRequest) return await work()
    if (fate === 'late') this.late = work
    if (fate === 'reply lost') await work()
    throw new TypeError('the network is gone')
  }

  async arrive(): Promise<void> {
    const late = this.late
    this.late = undefined
    await late?.()
  }

  async fetch(url: string, { method = 'GET', headers = {}, body }: RequestInit = {}): Promise<Response> {
    const origin = new URL(url).origin
    const server = this.servers.get(origin)!
    const path = url.slice(origin.length)
    await this.pause()
    if (method === 'GET') {
      if (this.#isDead) throw new Killed()
      return await server.inject('GET', path, {})
    }
    this.sent += 1
    return await this.effect(async () => {
      const payload = Buffer.from(body as Uint8Array)
      const reply = await server.inject('POST', path, headers as object, payload)
      if (reply.status === 200) await this.#took(server, path, (await reply.clone().json()) as Taken, payload)
      return reply
    }, true)
  }

  /** Holds what a server took to the rules. */
  async #took(server: Server, path: string, { epoch, publicKey }: Taken, payload: Buffer): Promise<void> {
    if (path === '/v1/checks') return
    if (path === '/v1/signatures') {
      const lacking = [...this.servers.values()].filter(other => other.epoch < epoch)
      if (lacking.length > 0) this.broken.push(`a signature of epoch ${epoch} came before all servers had the epoch`)
      server.signed.add(`${epoch} ${publicKey}`)
      return
    }
    if (epoch <= server.epoch) return
    for (let earlier = 1; earlier < epoch; earlier++) {
      if (this.keys.some(key => !server.signed.has(`${earlier} ${toHex(key.publicKey)}`))) {
        this.broken.push(`epoch ${epoch} came while epoch ${earlier} was not signed`)
      }
    }
    server.epoch = epoch
    this.#operations.set(toHex(blake3(payload)), operationsOf(payload))
    await this.onEpoch(server)
  }

  /** All servers are at one epoch, which all keys have signed, and no rule was broken on the way. */
  async expectWhole(seen = ''): Promise<void> {
    expect([seen, this.broken]).toEqual([seen, []])
    const shown = await Promise.all(
      [...this.servers.values()].map(async ({ inject }) => {
        const manifest = Buffer.from(await (await inject('GET', '/v1/manifest', {})).arrayBuffer())
        const { signatures } = (await (await inject('GET', '/v1/info', {})).json()) as { signatures: Taken[] }
        const { epoch } = decodeManifest(manifest)
        const signers = signatures.filter(entry => entry.epoch === epoch).map(({ publicKey }) => publicKey)
        return { epoch, manifest: toHex(blake3(manifest)).slice(0, 8), signers: signers.sort() }
      }),
    )
    const signers = this.keys.map(({ publicKey }) => toHex(publicKey)).sort()
    expect([seen, shown]).toEqual([seen, shown.map(() => ({ ...shown[0]!, signers }))])
  }

  /** How many epochs the servers made of these operations. */
  async made(operations: string | undefined): Promise<number> {
    const [{ inject, epoch }] = [...this.servers.values()] as [Server]
    let count = 0
    for (let e = 2; e <= epoch; e++) {
      const { batch } = (await (await inject('GET', `/v1/epochs/${e}`, {})).json()) as { batch: string }
      if (this.#operations.get(batch) === operations) count++
    }
    return count
  }
}

interface Taken {
  readonly epoch: number
  readonly publicKey: string
}

export const outcomeOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof Killed || error instanceof PublishError) return error
      throw error
    },
  )

/** A fixed sequence that looks random. */
export function chance(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
