// A disk that all tabs of an origin share. Writes take effect in order, in the SDK's own memory store. A strict write that is reported as
// done is flushed with all before it. A power loss keeps flushed writes, and some of those after them.

import { MemoryStore, type StateStore, StateUnreadableError } from '@keyhush/client/environment'
import { type Head, isStrict, isWrite, type Write } from './ledger.js'

export type Method = Exclude<keyof StateStore, 'durable'>

/** Called for each accepted write; `torn`: it replaced something unreadable. Returns the new head. */
export type OnWrite = (write: Write, before: Head | undefined, torn: boolean) => Head | undefined

type Heads = (Head | undefined)[]

export class Disk {
  readonly durable: boolean
  /** the stored state is unreadable */
  torn = false
  /** what the writes amount to, after none, one, two … of them */
  #heads: Heads = [undefined]
  /** number of writes that no power loss undoes */
  #flushed = 0
  store: StateStore
  #log: (Write | undefined)[] = []

  constructor(durable: boolean) {
    this.durable = durable
    this.store = new MemoryStore({ durable })
  }

  get head(): Head | undefined {
    return this.#heads.at(-1)
  }

  /** Carries a call out at once. `flush`, called when it is reported, returns the heads that were not flushed before. */
  async perform(
    method: Method,
    parameters: unknown[],
    onWrite: OnWrite,
  ): Promise<{ result: unknown; flush: () => Heads }> {
    const [before, torn] = [this.head, this.torn]
    if (torn) this.#clear(method, parameters)
    const result = await call(this.store, method, parameters)
    if (!isWrite(method)) return { result, flush: () => [] }
    const write = { method, parameters } as Write
    this.#log.push(write)
    this.#heads.push(onWrite(write, before, torn))
    const [heads, writes] = [this.#heads, isStrict(write) ? this.#heads.length - 1 : 0]
    // A torn state that was removed meanwhile takes its writes with it.
    return { result, flush: () => (heads === this.#heads ? this.#flush(writes) : []) }
  }

  #flush(writes: number): Heads {
    const from = this.#flushed
    this.#flushed = Math.max(from, writes)
    return this.#heads.slice(from + 1, this.#flushed + 1)
  }

  /** Number of writes since the disk was empty, or since a torn state was removed. */
  get writes(): number {
    return this.#heads.length - 1
  }

  /** Writes that a power loss may undo. */
  get unflushed(): number {
    return this.#heads.length - 1 - this.#flushed
  }

  /** Undoes the newest `lost` of the unflushed writes. */
  async losePower(lost: number): Promise<void> {
    await this.restore(this.writes - lost)
  }

  /** Puts the state after the first `writes` writes back, flushed or not. */
  async restore(writes: number): Promise<void> {
    this.#heads.length = writes + 1
    this.#log.length = writes
    this.#flushed = Math.min(this.#flushed, writes)
    await this.#replay()
  }

  /** Restores a copy that was made after the first `kept` writes. */
  async putBack(kept: number): Promise<void> {
    this.torn = false
    await this.restore(kept)
  }

  /** Removes some writes without any report. */
  async forget(which: (write: Write) => boolean): Promise<void> {
    this.#log = this.#log.map(write => (write && which(write) ? undefined : write))
    await this.#replay()
  }

  async #replay(): Promise<void> {
    this.store = new MemoryStore({ durable: this.durable })
    for (const write of this.#log) if (write) await call(this.store, write.method, write.parameters)
  }

  /** As with any store whose head is unreadable, only discard and begin work. */
  #clear(method: Method, parameters: unknown[]): void {
    const replaced = { begin: parameters[3], discard: parameters[0] }[method as string]
    if (replaced !== undefined || (method !== 'begin' && method !== 'discard')) {
      throw new StateUnreadableError('what is stored is torn')
    }
    this.torn = false
    this.store = new MemoryStore({ durable: this.durable })
    this.#log = []
    this.#heads = [undefined]
    this.#flushed = 0
  }
}

function call(store: StateStore, method: Method, parameters: unknown[]): Promise<unknown> {
  return (store[method] as (...all: unknown[]) => Promise<unknown>).apply(store, parameters)
}
