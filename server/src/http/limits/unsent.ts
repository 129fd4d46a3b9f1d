// Bounds the memory of replies that have not left and of bodies that have not arrived: clients that do not read, or send slowly, cannot
// fill it. The server reserves bytes before it makes or reads them.

import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../base/address.js'
import { Refusal } from '../../base/refusal.js'
import { whenOver } from './connections.js'

export interface UnsentOptions {
  /** in all; default 256 MiB */
  readonly total?: number | undefined
  /** how long a reply or body may stand when others need its room; default 5000 */
  readonly patienceMilliseconds?: number | undefined
}

const MIB = 1024 * 1024

/** How long a reply may take to leave, besides what its length takes at the least rate: twice what a client of ours waits for it. */
const GRACE_MILLISECONDS = 30_000
const LEAST_BYTES_PER_MILLISECOND = 16
const SWEEP_MILLISECONDS = 5000

interface Standing {
  readonly bytes: number
  readonly socket: Socket
  readonly network: string
  /** how long it may be due */
  readonly milliseconds: number
  /** given back */
  over: boolean
}

/** The network of a connection, which nearly all its requests have in common. */
const networks = new WeakMap<Socket, { readonly ip: string; readonly network: string }>()

export class Unsent {
  readonly #most: number
  readonly #patience: number
  /** those that the connection is to take or bring, and since when; oldest first */
  readonly #due = new Map<Standing, number>()
  #bytes = 0
  readonly #ofNetwork = new Map<string, number>()

  constructor({ total = 256 * MIB, patienceMilliseconds = 5000 }: UnsentOptions = {}) {
    this.#most = total
    this.#patience = patienceMilliseconds
  }

  /** Reserved at the moment. */
  get bytes(): number {
    return this.#bytes
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

  /** The same for a body that is about to come, until it is here. */
  reserveBody(request: FastifyRequest, bytes: number): void {
    const refusal = 'too many bytes of requests have not arrived yet; try again later'
    const standing = this.#reserve(request, bytes, bytes, refusal)
    request.raw.on('close', () => this.#release(standing)) // read, or its connection is gone
    this.#begin(standing)
  }

  /** Ends connections that are too slow, until the app closes. */
  watch(app: FastifyInstance): this {
    const sweep = setInterval(() => this.hangUpOnSlow(), SWEEP_MILLISECONDS).unref()
    app.addHook('onClose', async () => clearInterval(sweep))
    return this
  }

  /** Ends connections below the least rate, whether others need their room or not. `now`: monotonic, milliseconds. */
  hangUpOnSlow(now = performance.now()): void {
    for (const [standing, since] of this.#due) {
      if (now - since < GRACE_MILLISECONDS) return
      if (now - since >= standing.milliseconds) this.#hangUp(standing)
    }
  }

  #reserve(request: FastifyRequest, bytes: number, length: number, refusal: string): Standing {
    const { ip, raw } = request
    const { socket } = raw
    let known = networks.get(socket)
    // There is no address where the peer has reset its connection, or the server listens at a path.
    if (known === undefined || known.ip !== ip) {
      known = { ip, network: networkOf(ip) }
      networks.set(socket, known)
    }
    const { network } = known
    this.#makeRoom(bytes, network)
    const ofNetwork = this.#ofNetwork.get(network) ?? 0
    if (exceeds(ofNetwork, bytes, this.#most / 2) || exceeds(this.#bytes, bytes, this.#most)) {
      throw new Refusal('rate_limited', refusal)
    }
    const milliseconds = GRACE_MILLISECONDS + length / LEAST_BYTES_PER_MILLISECOND
    const standing: Standing = { bytes, socket, network, milliseconds, over: false }
    this.#add(standing, bytes)
    return standing
  }

  #begin(standing: Standing): void {
    if (!standing.over) this.#due.set(standing, performance.now())
  }

  #release(standing: Standing): void {
    if (standing.over) return
    standing.over = true
    this.#due.delete(standing)
    this.#add(standing, -standing.bytes)
  }

  #add({ network }: Standing, bytes: number): void {
    this.#bytes += bytes
    const ofNetwork = (this.#ofNetwork.get(network) ?? 0) + bytes
    if (ofNetwork === 0) this.#ofNetwork.delete(network)
    else this.#ofNetwork.set(network, ofNetwork)
  }

  /**
   * Ends connections while there is no room for `needed` bytes. First those that have stood still for too long. Then, oldest first, those
   * of the network that has most, as long as it has more than `network` will have.
   */
  #makeRoom(needed: number, network: string): void {
    const isFull = () => this.#bytes + needed > this.#most
    for (const [standing, since] of this.#due) {
      if (!isFull() || performance.now() - since < this.#patience) break
      this.#hangUp(standing)
    }
    if (!isFull()) return
    // Looked up once, for there may be tens of thousands of connections.
    const most = (this.#ofNetwork.get(network) ?? 0) + needed
    const heavy = new Map<string, Standing[]>()
    for (const [other, bytes] of this.#ofNetwork) if (bytes > most) heavy.set(other, [])
    if (heavy.size === 0) return
    for (const standing of this.#due.keys()) heavy.get(standing.network)?.push(standing)
    for (const queue of heavy.values()) queue.reverse()
    while (isFull()) {
      const [heaviest, queue] = this.#heaviestOf(heavy)
      const oldest = (this.#ofNetwork.get(heaviest) ?? 0) > most ? queue.pop() : undefined
      if (oldest === undefined) return
      this.#hangUp(oldest)
    }
  }

  #heaviestOf(queues: ReadonlyMap<string, Standing[]>): [string, Standing[]] {
    const bytesOf = ([network]: [string, Standing[]]) => this.#ofNetwork.get(network) ?? 0
    return [...queues].reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a))
  }

  #hangUp(standing: Standing): void {
    standing.socket.destroy()
    this.#release(standing)
  }
}

function exceeds(standing: number, added: number, most: number): boolean {
  return standing > 0 && standing + added > most
}
