// How much of one bound each network holds: of connections, of streams, of bytes. One party may have a whole network (base/address.ts).

import type { Socket } from 'node:net'
import { networkOf } from '../../base/address.js'

export class Shares {
  readonly most: number
  readonly #mostOfNetwork: number
  #sum = 0
  readonly #held = new Map<string, number>()

  /** `mostOfNetwork`: default half, so that one network leaves room for others. */
  constructor(most: number, mostOfNetwork = most / 2) {
    this.most = most
    this.#mostOfNetwork = mostOfNetwork
  }

  /** What all hold. */
  get sum(): number {
    return this.#sum
  }

  of(network: string): number {
    return this.#held.get(network) ?? 0
  }

  /** `amount` below zero: gives back. */
  add(network: string, amount: number): void {
    const held = this.of(network) + amount
    this.#sum += amount
    if (held === 0) this.#held.delete(network)
    else this.#held.set(network, held)
  }

  /** Whether there is room for `amount` in all. Where nothing is held, one of any size fits. */
  fitsAll(amount: number): boolean {
    return this.#sum === 0 || this.#sum + amount <= this.most
  }

  /** Whether there is in what `network` may hold. */
  fitsNetwork(network: string, amount: number): boolean {
    const held = this.of(network)
    return held === 0 || held + amount <= this.#mostOfNetwork
  }

  /** What each network may hold if all share alike, `network` among them. Less is never taken from any. */
  fairFor(network: string): number {
    return this.most / (this.#held.size + (this.#held.has(network) ? 0 : 1))
  }
}

/** Things by a number that each has. The one with most is found at once: there may be tens of thousands. */
export class Ranked<T> {
  readonly #numbers = new Map<T, number>()
  readonly #having: (Set<T> | undefined)[] = []
  #most = 0

  /** 0: it is none of them. */
  put(each: T, number: number): void {
    const before = this.#numbers.get(each) ?? 0
    if (number === before) return
    const others = this.#having[before]
    others?.delete(each)
    if (others?.size === 0) this.#having[before] = undefined
    if (number === 0) {
      this.#numbers.delete(each)
      return
    }
    this.#numbers.set(each, number)
    const equals = this.#having[number] ?? new Set()
    this.#having[number] = equals.add(each)
    this.#most = Math.max(this.#most, number)
  }

  get heaviest(): T | undefined {
    while (this.#most > 0 && this.#having[this.#most] === undefined) this.#most--
    const [first] = this.#having[this.#most] ?? []
    return first
  }
}

/** The network of a connection's requests, which nearly all of them have in common. */
const known = new WeakMap<Socket, { readonly ip: string; readonly network: string }>()

/** The network of a request's client. */
export function networkOfRequest({
  ip,
  raw: { socket },
}: {
  readonly ip: string
  readonly raw: { readonly socket: Socket }
}): string {
  let found = known.get(socket)
  // There is no address where the peer has reset its connection, or the server listens at a path.
  if (found === undefined || found.ip !== ip) {
    found = { ip, network: networkOf(ip) }
    known.set(socket, found)
  }
  return found.network
}
