// Bounds the memory of replies that have not left and of bodies that have not arrived: clients that do not read, or send slowly, cannot
// fill it. The server reserves bytes before it makes or reads them.

import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../base/refusal.js'
import { whenOver } from './connections.js'
import { networkOfRequest, Ranked, Shares } from './shares.js'

export interface UnsentOptions {
  /** in all; default 256 MiB */
  readonly total?: number | undefined
  /** how long a reply or body may stand when others need its room; default 5000 */
  readonly patienceMilliseconds?: number | undefined
}

const MIB = 1024 * 1024

/** What networks hold is compared in parts of the total. */
const PARTS = 65_536

/** How long a reply may take to leave, besides what its length takes at the least rate: twice what a client of ours waits for it. */
const GRACE_MILLISECONDS = 30_000
const LEAST_BYTES_PER_MILLISECOND = 16
const SWEEP_MILLISECONDS = 5000

interface Standing {
  bytes: number
  readonly socket: Socket
  readonly network: string
  /** how long it may be due */
  readonly milliseconds: number
  /** since when it has been due */
  begun: number
  /** what had moved over its connection when it was last seen to have moved, and when that was */
  moved: number
  movedAt: number
  /** given back */
  over: boolean
}

export class Unsent {
  readonly #shares: Shares
  readonly #patience: number
  /** those that the connection is to take or bring; first what has stood still for longest */
  readonly #due = new Set<Standing>()
  /** the same of each network that has any */
  readonly #dueOf = new Map<string, Set<Standing>>()
  /** those networks, by what they hold */
  readonly #heavy = new Ranked<string>()

  constructor({ total = 256 * MIB, patienceMilliseconds = 5000 }: UnsentOptions = {}) {
    this.#shares = new Shares(total)
    this.#patience = patienceMilliseconds
  }

  /** Reserved at the moment. */
  get bytes(): number {
    return this.#shares.sum
  }

  /**
   * Reserves `bytes` for a reply until it has left. A network has half of the total, and one reply of any size. Throws a `rate_limited`
   * Refusal. `waits`: the time begins when you call the returned function. `length`: of a reply that is not in memory at once.
   */
  reserve(
    request: FastifyRequest,
    reply: FastifyReply,
    bytes: number,
    { waits = false, length = bytes }: { readonly waits?: boolean; readonly length?: number } = {},
  ): () => void {
    const refusal = 'too many bytes of replies wait to be read; try again later'
    const standing = this.#reserve(request, bytes, length, refusal)
    whenOver(reply, () => this.#release(standing))
    if (!waits) this.#begin(standing)
    return () => this.#begin(standing)
  }

  /**
   * The same for a body, until it is here. To be called before it is read; the returned function reserves for what has come, and gives all
   * back when it throws.
   */
  reserveBody(request: FastifyRequest): (bytes: number) => void {
    const refusal = 'too many bytes of requests have not arrived yet; try again later'
    let standing: Standing | undefined
    return bytes => {
      if (standing !== undefined) {
        this.#grow(standing, bytes, refusal)
        return
      }
      const begun = this.#reserve(request, bytes, bytes, refusal)
      request.raw.on('close', () => this.#release(begun)) // read, or its connection is gone
      this.#begin(begun)
      standing = begun
    }
  }

  /** Ends connections that are too slow, until the app closes. */
  watch(app: FastifyInstance): this {
    const sweep = setInterval(() => this.sweep(), SWEEP_MILLISECONDS).unref()
    app.addHook('onClose', async () => clearInterval(sweep))
    return this
  }

  /** Ends connections below the least rate, whether others need their room or not, and sees which have moved. `now`: monotonic, milliseconds. */
  sweep(now = performance.now()): void {
    for (const standing of [...this.#due]) {
      if (now - standing.begun >= standing.milliseconds) this.#hangUp(standing)
      else this.#look(standing, now)
    }
  }

  #reserve(request: FastifyRequest, bytes: number, length: number, refusal: string): Standing {
    const network = networkOfRequest(request)
    if (!this.#hasRoom(bytes, network)) throw new Refusal('rate_limited', refusal)
    const milliseconds = GRACE_MILLISECONDS + length / LEAST_BYTES_PER_MILLISECOND
    const { socket } = request.raw
    this.#hold(network, bytes)
    return { bytes, socket, network, milliseconds, begun: 0, moved: 0, movedAt: 0, over: false }
  }

  #grow(standing: Standing, bytes: number, refusal: string): void {
    if (standing.over) return // hung up on
    this.#leave(standing) // it is not to make room for itself
    if (!this.#hasRoom(bytes, standing.network)) {
      this.#release(standing)
      throw new Refusal('rate_limited', refusal)
    }
    standing.bytes += bytes
    this.#hold(standing.network, bytes)
    this.#enter(standing)
    this.#look(standing, performance.now())
  }

  #begin(standing: Standing): void {
    if (standing.over) return
    const now = performance.now()
    Object.assign(standing, { begun: now, movedAt: now, moved: movedOver(standing.socket) })
    this.#enter(standing)
  }

  /** Behind all others. */
  #enter(standing: Standing): void {
    const { network } = standing
    this.#due.add(standing)
    this.#dueOf.set(network, (this.#dueOf.get(network) ?? new Set()).add(standing))
    this.#hold(network, 0)
  }

  #leave(standing: Standing): void {
    const { network } = standing
    const ofNetwork = this.#dueOf.get(network)
    this.#due.delete(standing)
    ofNetwork?.delete(standing)
    if (ofNetwork?.size === 0) this.#dueOf.delete(network)
    this.#hold(network, 0)
  }

  #hold(network: string, bytes: number): void {
    const { most } = this.#shares
    this.#shares.add(network, bytes)
    this.#heavy.put(network, this.#dueOf.has(network) ? Math.ceil((this.#shares.of(network) / most) * PARTS) : 0)
  }

  #release(standing: Standing): void {
    if (standing.over) return
    standing.over = true
    this.#leave(standing)
    this.#hold(standing.network, -standing.bytes)
  }

  /** Since when it has stood still. What has moved goes behind all others. */
  #look(standing: Standing, now: number): number {
    const moved = movedOver(standing.socket)
    if (moved !== standing.moved) {
      Object.assign(standing, { moved, movedAt: now })
      this.#leave(standing)
      this.#enter(standing)
    }
    return standing.movedAt
  }

  /**
   * Whether there is room for `needed` bytes. If not, it ends connections: at the bound of `network`, its own that stand still; at the bound
   * of all, what stands still, and then what is of networks that have most.
   */
  #hasRoom(needed: number, network: string): boolean {
    const shares = this.#shares
    const fitsNetwork = () => shares.fitsNetwork(network, needed)
    const fitsAll = () => shares.fitsAll(needed)
    if (!fitsNetwork()) this.#endStill(this.#dueOf.get(network) ?? [], fitsNetwork)
    if (!fitsNetwork()) return false
    const fair = shares.fairFor(network)
    if (!fitsAll()) this.#endStill(this.#due, fitsAll, other => shares.of(other) > fair)
    if (!fitsAll()) this.#endHeaviest(needed, network)
    return fitsAll()
  }

  /** Ends, among these, what has stood still for too long, of these networks, until it `fits`. */
  #endStill(among: Iterable<Standing>, fits: () => boolean, isOf: (network: string) => boolean = () => true): void {
    const now = performance.now()
    for (const standing of among) {
      if (fits() || now - standing.movedAt < this.#patience) return
      if (isOf(standing.network) && now - this.#look(standing, now) >= this.#patience) this.#hangUp(standing)
    }
  }

  /** Ends, of the network that has most, what has stood still for longest, while it has more than `network` will have. */
  #endHeaviest(needed: number, network: string): void {
    const most = this.#shares.of(network) + needed
    while (!this.#shares.fitsAll(needed)) {
      const { heaviest } = this.#heavy
      if (heaviest === undefined || this.#shares.of(heaviest) <= most) return
      const [first] = this.#dueOf.get(heaviest)!
      this.#hangUp(first!)
    }
  }

  #hangUp(standing: Standing): void {
    standing.socket.destroy()
    this.#release(standing)
  }
}

/**
 * Bytes that have come over a connection, or left over it. Node counts a long reply as written at once: libuv's queue says how much of it
 * has not left, and Node's own timeouts look there, too.
 */
function movedOver(socket: Socket): number {
  const { _handle } = socket as { _handle?: { readonly writeQueueSize?: number } | null }
  return socket.bytesRead + socket.bytesWritten - (_handle?.writeQueueSize ?? 0)
}
