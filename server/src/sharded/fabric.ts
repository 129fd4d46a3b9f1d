// An operator's shards, over HTTP. Each has replicas, which answer alike: a call goes to one of them, and to the next if that fails.

import http from 'node:http'
import https from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { equalBytes, LONGEST_MANIFEST_BYTES, parseErrorReply } from '@keyhush/protocol'
import { OperatorError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'

export interface Call {
  readonly path: string
  readonly method?: 'GET' | 'POST'
  readonly body?: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** most bytes of a reply */
  readonly most: number
  /** Throws if these bytes are no reply to this call. */
  readonly isRight?: (reply: Uint8Array) => void
  /** whether the caller gets this refusal, and the replica has not failed; default: false */
  readonly passesOn?: (refusal: Refusal) => boolean
  /** milliseconds; default: by how long the shard's replies took */
  readonly deadline?: number
  /** asks the replica that writes, once */
  readonly only?: 'writer'
}

export interface Replica {
  readonly shard: number
  /** from 0, which writes */
  readonly number: number
  readonly url: string
  /** why it is asked last; undefined: it is sound */
  problem: string | undefined
  /** replies that did not come in time, and calls that failed otherwise */
  late: number
  failed: number
}

const TRIES = 3
const [SHORTEST_DEADLINE, LONGEST_DEADLINE] = [1000, 10_000]
/** A deadline is so many times the slowest of so many recent replies. */
const [PATIENCE, RECENT] = [3, 32]
const PAUSE_MILLISECONDS = 250
const PROBE_MILLISECONDS = 1000
const MOST_ERROR_BYTES = 16 * 1024

export class Fabric {
  readonly shards: number
  readonly replicas: readonly Replica[]
  /** the shards' manifests of the epoch that clients see: a replica that failed is sound once it shows its own */
  head: readonly KnownManifest[] | undefined
  /** Called when a replica fails, and when it is sound again. */
  onChange: (replica: Replica) => void = () => {}
  readonly #agents = { http: new http.Agent({ keepAlive: true }), https: new https.Agent({ keepAlive: true }) }
  /** milliseconds of the recent replies of each shard */
  readonly #took: readonly number[][]
  #turn = 0
  #probing: NodeJS.Timeout | undefined
  #isClosed = false

  /** `templates`: URLs with `{shard}`, first those of the replicas that write. Throws OperatorError. */
  constructor(shards: number, templates: readonly string[]) {
    const wrong = templates.find(url => !/^https?:\/\/.*\{shard\}/.test(url) || !URL.canParse(url))
    if (templates.length === 0 || wrong !== undefined) {
      const got = wrong === undefined ? 'none' : JSON.stringify(wrong)
      throw new OperatorError(`--shards: expected URLs such as http://a-{shard}.shards:8080, got ${got}; give them`)
    }
    this.shards = shards
    const urlOf = (template: string, shard: number) => template.replaceAll('{shard}', `${shard}`).replace(/\/+$/, '')
    this.#took = Array.from({ length: shards }, () => [])
    this.replicas = this.#took.flatMap((_, shard) =>
      templates.map((each, number) => {
        return { shard, number, url: urlOf(each, shard), problem: undefined, late: 0, failed: 0 }
      }),
    )
  }

  /** What fails at the moment, for the operator; undefined: nothing. */
  get problem(): string | undefined {
    return this.replicas.find(({ problem }) => problem !== undefined)?.problem
  }

  /** What a shard replies. Throws a refusal that is passed on, and a `not_ready` Refusal once three replicas in a row have failed. */
  async ask(shard: number, call: Call): Promise<Uint8Array> {
    const all = this.replicas.filter(replica => replica.shard === shard)
    const turn = this.#turn++
    const turned = all.map((_, i) => all[(turn + i) % all.length]!)
    const inOrder = [...turned.filter(isSound), ...turned.filter(replica => !isSound(replica))]
    const tries = call.only === 'writer' ? 1 : TRIES
    for (let i = 0, isFull = false; i < tries && !this.#isClosed; i++) {
      if (isFull || i >= all.length) await sleep(PAUSE_MILLISECONDS)
      const replica = call.only === 'writer' ? all[0]! : inOrder[i % all.length]!
      const [begun, deadline] = [performance.now(), call.deadline ?? this.#deadline(shard)]
      try {
        const reply = await this.#send(replica, call, deadline)
        call.isRight?.(reply)
        return reply
      } catch (error) {
        if (error instanceof Refusal && call.passesOn?.(error)) throw error
        isFull = error instanceof Refusal && error.code === 'instant_full'
        if (!isFull && !this.#isClosed) this.#failed(replica, error as Error)
      } finally {
        // Late ones count, too: if all have become slower, deadlines follow.
        if (call.deadline === undefined) this.#note(shard, performance.now() - begun)
      }
    }
    throw new Refusal('not_ready', 'a part of this database does not answer now; try again')
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#probing)
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  #deadline(shard: number): number {
    const slowest = Math.max(0, ...this.#took[shard]!) || LONGEST_DEADLINE
    return Math.min(LONGEST_DEADLINE, Math.max(SHORTEST_DEADLINE, Math.ceil(PATIENCE * slowest)))
  }

  #note(shard: number, milliseconds: number): void {
    const took = this.#took[shard]!
    took.push(milliseconds)
    if (took.length > RECENT) took.shift()
  }

  #failed(replica: Replica, error: Error): void {
    const isLate = error.name === 'TimeoutError'
    replica[isLate ? 'late' : 'failed']++
    const wasSound = isSound(replica)
    const why = isLate ? 'expected a reply in time, got none' : error.message
    replica.problem = `shard ${replica.shard} at ${replica.url}: ${why}`
    if (wasSound) this.onChange(replica)
    this.#probeLater()
  }

  #probeLater(): void {
    if (this.#isClosed || this.replicas.every(isSound)) return
    this.#probing ??= setTimeout(async () => {
      await Promise.all(this.replicas.filter(replica => !isSound(replica)).map(replica => this.#probe(replica)))
      this.#probing = undefined
      this.#probeLater()
    }, PROBE_MILLISECONDS).unref()
  }

  async #probe(replica: Replica): Promise<void> {
    const head = this.head?.[replica.shard]
    const at = head === undefined ? '' : `?generation=${head.manifest.generation}&epoch=${head.manifest.epoch}`
    const call = { path: `/v1/manifest${at}`, most: LONGEST_MANIFEST_BYTES }
    const bytes = await this.#send(replica, call, SHORTEST_DEADLINE).catch(() => undefined)
    if (bytes === undefined || (head !== undefined && !equalBytes(bytes, head.bytes))) return
    replica.problem = undefined
    this.onChange(replica)
  }

  #send({ url }: Replica, { path, method = 'GET', body, headers, most }: Call, deadline: number): Promise<Uint8Array> {
    const [client, agent] = /^https:/.test(url) ? [https, this.#agents.https] : [http, this.#agents.http]
    const signal = AbortSignal.timeout(deadline)
    const length = body && { 'content-type': 'application/octet-stream', 'content-length': body.length }
    const options = { method, agent, signal, headers: { ...length, ...headers } }
    const attempt = (): Promise<Uint8Array> =>
      new Promise((resolve, reject) => {
        const fail = (error: Error) => reject(signal.aborted ? signal.reason : error)
        const request = client.request(url + path, options, response => {
          readReply(response, most).then(resolve, fail)
        })
        request.once('error', (error: NodeJS.ErrnoException) => {
          // Between two requests the server has closed the connection.
          if (request.reusedSocket && error.code === 'ECONNRESET' && !signal.aborted) resolve(attempt())
          else fail(error)
        })
        request.end(body)
      })
    return attempt()
  }
}

async function readReply(response: http.IncomingMessage, most: number): Promise<Uint8Array> {
  const isGood = response.statusCode === 200
  const [chunks, longest] = [[] as Uint8Array[], isGood ? most : MOST_ERROR_BYTES]
  let length = 0
  for await (const chunk of response) {
    chunks.push(chunk)
    length += chunk.length
    if (length > longest) throw new Error(`expected a reply of at most ${longest} bytes, got more`)
  }
  if (isGood) return Buffer.concat(chunks)
  const { code, message, ...details } = parseErrorReply(Buffer.concat(chunks).toString())
  throw new Refusal(code, message, response.statusCode, details)
}

const isSound = ({ problem }: Replica) => problem === undefined
