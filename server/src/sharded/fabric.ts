// An operator's shards, over HTTP. Each has replicas, which answer alike: a call goes to one of them, and to the next if that fails.

import http from 'node:http'
import https from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { urlToHttpOptions } from 'node:url'
import { equalBytes, LONGEST_MANIFEST_BYTES, type Manifest, parseErrorReply } from '@keyhush/protocol'
import { OperatorError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { Refusal } from '../base/refusal.js'
import { newQueue, type Queue } from '../database/queue.js'

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
  /** asks the replica that writes, once, whose refusals are all passed on */
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

/** A replica, and how it is reached. */
interface Target extends Replica {
  readonly client: typeof http | typeof https
  readonly agent: http.Agent
  readonly options: http.RequestOptions
  /** of paths */
  readonly prefix: string
  /** batches for the shards of its process */
  readonly writes: Queue
  /** After a failure it is not probed before this time, by the monotonic clock. */
  probedFrom: number
  /** for so long, the next time: doubled by each failure without a right reply in between */
  rest: number
  /** when its newest right reply came */
  replied: number
  /** for how long a reply was awaited in vain, after the shard's newest: replies may have become slower */
  vain: number
}

interface ShardState {
  readonly replicas: readonly Target[]
  /** milliseconds of recent replies */
  readonly took: number[]
  /** lookups so far: replicas take turns */
  turn: number
}

const TRIES = 3
const [SHORTEST_DEADLINE, LONGEST_DEADLINE] = [1000, 10_000]
/** A deadline is so many times the slowest of so many recent replies. */
const [PATIENCE, RECENT] = [3, 32]
const PAUSE_MILLISECONDS = 250
const PROBE_MILLISECONDS = 1000
/** A replica may show its manifest, and answer no lookups: it is not tried again each second. */
const LONGEST_REST = 60_000
/** A process reads four batches at a time (limits/batches.ts), and may have several shards. */
const BATCHES_AT_ONCE = 3
const MOST_ERROR_BYTES = 16 * 1024
/** for a manifest, which is short */
const MANIFEST_MILLISECONDS = 10_000

/** Asks for the manifest of an epoch; without one, of the newest. */
export function manifestCall(of?: Pick<Manifest, 'generation' | 'epoch'>) {
  const at = of === undefined ? '' : `?generation=${of.generation}&epoch=${of.epoch}`
  return { path: `/v1/manifest${at}`, most: LONGEST_MANIFEST_BYTES, deadline: MANIFEST_MILLISECONDS }
}

class LateError extends Error {
  constructor() {
    super('expected a reply in time, got none')
  }
}

export class Fabric {
  readonly shards: number
  readonly replicas: readonly Replica[]
  /** the shards' manifests of the epoch that clients see: a replica that failed is sound once it shows its own */
  head: readonly KnownManifest[] | undefined
  /** Called when a replica fails, and when it is sound again. */
  onChange: (replica: Replica) => void = () => {}
  readonly #agents = [new http.Agent({ keepAlive: true }), new https.Agent({ keepAlive: true })] as const
  readonly #states: readonly ShardState[]
  #probing: NodeJS.Timeout | undefined
  #isClosed = false

  /** `templates`: URLs with `{shard}`, first those of the replicas that write. `flag`: what names them. Throws OperatorError. */
  constructor(
    shards: number,
    templates: readonly string[],
    readonly flag: '--shards' | '--next' = '--shards',
  ) {
    const urlOf = (template: string, shard: number) => template.replaceAll('{shard}', `${shard}`).replace(/\/+$/, '')
    // `{shard}` may stand in a port, so the last shard has the longest.
    const wrong = templates.find(
      template => !/^https?:\/\/.*\{shard\}/.test(template) || !URL.canParse(urlOf(template, shards - 1)),
    )
    if (templates.length === 0 || wrong !== undefined) {
      const got = wrong === undefined ? 'none' : JSON.stringify(wrong)
      throw new OperatorError(`${flag}: expected URLs such as http://a-{shard}.shards:8080, got ${got}; give them`)
    }
    this.shards = shards
    const queues = new Map<string, Queue>()
    const replicaOf = (shard: number) => (template: string, number: number) => {
      const target = new URL(urlOf(template, shard))
      const url = urlOf(template, shard).replace(/\/\/[^/]*@/, '//') // what is shown and logged has no password
      const [client, agent] = target.protocol === 'http:' ? [http, this.#agents[0]] : [https, this.#agents[1]]
      const writes = queues.get(target.origin) ?? newQueue(BATCHES_AT_ONCE)
      queues.set(target.origin, writes)
      const reached = {
        client,
        agent,
        options: urlToHttpOptions(target),
        prefix: target.pathname.replace(/\/$/, ''),
        writes,
      }
      const rested = { probedFrom: 0, rest: PROBE_MILLISECONDS, replied: 0, vain: 0 }
      return { shard, number, url, problem: undefined, late: 0, failed: 0, ...reached, ...rested }
    }
    this.#states = Array.from({ length: shards }, (_, i) => ({
      replicas: templates.map(replicaOf(i)),
      took: [],
      turn: 0,
    }))
    this.replicas = this.#states.flatMap(({ replicas }) => replicas)
  }

  /** What fails at the moment, for the operator; undefined: nothing. */
  get problem(): string | undefined {
    return this.replicas.find(({ problem }) => problem !== undefined)?.problem
  }

  /** What a shard replies. Throws a refusal that is passed on, and a `not_ready` Refusal once three replicas in a row have failed. */
  async ask(shard: number, call: Call): Promise<Uint8Array> {
    const state = this.#states[shard]!
    const all = state.replicas
    // Lookups alone take turns: so all shards are at one, and a process that has several is found dead by one lookup.
    const turn = call.deadline === undefined ? state.turn++ : state.turn
    const turned = all.map((_, i) => all[(turn + i) % all.length]!)
    const isWriter = call.only === 'writer'
    const failed = turned.filter(replica => !isSound(replica)).sort((a, b) => b.replied - a.replied)
    const inOrder = isWriter ? [all[0]!] : [...turned.filter(isSound), ...failed]
    const tries = isWriter ? 1 : TRIES
    for (let i = 0, isFull = false; i < tries && !this.#isClosed; i++) {
      if (isFull || i >= all.length) await sleep(PAUSE_MILLISECONDS)
      const replica = inOrder[i % inOrder.length]!
      const [begun, deadline] = [performance.now(), call.deadline ?? deadlineOf(state, replica)]
      try {
        const send = () => this.#send(replica, call, deadline)
        const reply = await (isWriter && call.body !== undefined ? replica.writes(send) : send())
        call.isRight?.(reply)
        if (call.deadline === undefined) note(state, performance.now() - begun)
        Object.assign(replica, { rest: PROBE_MILLISECONDS, probedFrom: 0, replied: performance.now() })
        return reply
      } catch (error) {
        if (error instanceof Refusal && (isWriter || call.passesOn?.(error))) throw error
        // It may have become slower: its deadline follows.
        if (isSound(replica) && error instanceof LateError && call.deadline === undefined)
          replica.vain = performance.now() - begun
        isFull = error instanceof Refusal && error.code === 'instant_full'
        if (!isFull && !this.#isClosed) this.#failed(replica, error as Error)
      }
    }
    throw new Refusal('not_ready', 'a part of this database does not answer now; try again')
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#probing)
    for (const agent of this.#agents) agent.destroy()
  }

  #failed(replica: Target, error: Error): void {
    const isLate = error instanceof LateError
    replica[isLate ? 'late' : 'failed']++
    const wasSound = isSound(replica)
    replica.problem = problemOf(replica, error)
    if (wasSound) {
      replica.probedFrom = performance.now() + replica.rest
      replica.rest = Math.min(LONGEST_REST, 2 * replica.rest)
      this.onChange(replica)
    }
    this.#probeLater()
  }

  #probeLater(): void {
    if (this.#isClosed || this.replicas.every(isSound)) return
    this.#probing ??= setTimeout(async () => {
      const all = this.#states.flatMap(({ replicas }) => replicas)
      const now = performance.now()
      const isDue = (replica: Target) => !isSound(replica) && replica.probedFrom <= now
      await Promise.all(all.filter(isDue).map(replica => this.#probe(replica)))
      this.#probing = undefined
      this.#probeLater()
    }, PROBE_MILLISECONDS).unref()
  }

  async #probe(replica: Target): Promise<void> {
    const head = this.head?.[replica.shard]
    try {
      const bytes = await this.#send(replica, manifestCall(head?.manifest), SHORTEST_DEADLINE)
      if (head !== undefined && !equalBytes(bytes, head.bytes))
        throw new Error('expected the manifest of the epoch in use, got another')
      replica.problem = undefined
      this.onChange(replica)
    } catch (error) {
      replica.problem = problemOf(replica, error as Error)
      // It is not slow, but hangs.
      if (error instanceof LateError) replica.vain = 0
    }
  }

  #send(replica: Target, call: Call, deadline: number): Promise<Uint8Array> {
    const { method = 'GET', body, headers, most } = call
    const { client, agent, options, prefix } = replica
    const length = body && { 'content-type': 'application/octet-stream', 'content-length': body.length }
    return new Promise((resolve, reject) => {
      const all = { ...length, ...headers }
      const request = client.request({ ...options, path: prefix + call.path, method, agent, headers: all })
      let [isBegun, isOver] = [false, false]
      const fail = (error: NodeJS.ErrnoException) => {
        if (isOver) return
        isOver = true
        clearTimeout(timer)
        request.destroy()
        // Between two requests the server has closed the connection.
        const isStale = request.reusedSocket && error.code === 'ECONNRESET' && !isBegun
        if (isStale) resolve(this.#send(replica, call, deadline))
        else reject(error)
      }
      const timer = setTimeout(() => fail(new LateError()), deadline)
      request.on('response', (response: http.IncomingMessage) => {
        isBegun = true
        const isGood = response.statusCode === 200
        const chunks: Uint8Array[] = []
        let room = isGood ? most : MOST_ERROR_BYTES
        response.on('error', fail).on('data', (chunk: Uint8Array) => {
          chunks.push(chunk)
          room -= chunk.length
          if (room < 0) fail(new Error('expected a reply of its length, got a longer one'))
        })
        response.on('end', () => {
          clearTimeout(timer)
          if (isGood) resolve(Buffer.concat(chunks))
          else fail(refusalOf(response.statusCode, Buffer.concat(chunks)))
        })
      })
      request.on('error', fail).end(body)
    })
  }
}

function refusalOf(status: number | undefined, bytes: Buffer): Error {
  try {
    const { code, message, ...details } = parseErrorReply(bytes.toString())
    return new Refusal(code, message, status, details)
  } catch (error) {
    return error as Error
  }
}

function deadlineOf({ took }: ShardState, { vain }: Target): number {
  const slowest = Math.max(vain, ...took) || LONGEST_DEADLINE
  return Math.min(LONGEST_DEADLINE, Math.max(SHORTEST_DEADLINE, Math.ceil(PATIENCE * slowest)))
}

function note({ replicas, took }: ShardState, milliseconds: number): void {
  for (const replica of replicas) replica.vain = 0
  took.push(milliseconds)
  if (took.length > RECENT) took.shift()
}

const problemOf = ({ shard, url }: Replica, { message }: Error) => `shard ${shard} at ${url}: ${message}`
const isSound = ({ problem }: Replica) => problem === undefined
