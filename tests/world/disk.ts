// A disk, shared by all tabs of an origin and outliving them. What the tabs write goes through the SDK's own memory
// store, in the order in which it takes effect. A strict write is flushed, with all that came before it, when the tab is
// told that it is done; a power loss keeps what is flushed and an arbitrary part of what followed.

import { MemoryStore, type StateStore, StateUnreadableError } from '@keyhush/client/environment'
import { type Head, isStrict, isWrite, type Write } from './ledger.js'

export type Method = Exclude<keyof StateStore, 'durable'>

/** Told of a write that was accepted; `torn`: what it replaced could not be read. Returns the head it has led to. */
export type OnWrite = (write: Write, before: Head | undefined, torn: boolean) => Head | undefined

export class Disk {
  readonly durable: boolean
  /** what stands there cannot be read any more */
  torn = false
  /** what the writes amount to, after none, one, two … of them */
  #heads: (Head | undefined)[] = [undefined]
  /** writes that no power loss undoes */
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

  /** Carries a call out, at once. Resolves to its result, and the number of writes to be flushed when it is done. */
  async perform(method: Method, parameters: unknown[], onWrite: OnWrite): Promise<{ result: unknown; flush: number }> {
    const [before, torn] = [this.head, this.torn]
    if (torn) this.#clear(method, parameters)
    const result = await call(this.store, method, parameters)
    if (!isWrite(method)) return { result, flush: 0 }
    const write = { method, parameters } as Write
    this.#log.push(write)
    this.#heads.push(onWrite(write, before, torn))
    return { result, flush: isStrict(write) ? this.#heads.length - 1 : 0 }
  }

  /** The first `writes` are safe from now on. Returns the heads that this is true of for the first time. */
  flush(writes: number): (Head | undefined)[] {
    const from = this.#flushed
    this.#flushed = Math.max(from, writes)
    return this.#heads.slice(from + 1, this.#flushed + 1)
  }

  /** Writes since there was nothing, or since what was torn was cleared away. */
  get writes(): number {
    return this.#heads.length - 1
  }

  /** Writes that a power loss may undo. */
  get unflushed(): number {
    return this.#heads.length - 1 - this.#flushed
  }

  /** The newest `lost` of the unflushed writes have never happened. */
  async losePower(lost: number): Promise<void> {
    await this.restore(this.writes - lost)
  }

  /** What stood there after the first `writes` writes is put back, flushed or not. */
  async restore(writes: number): Promise<void> {
    this.#heads.length = writes + 1
    this.#log.length = writes
    this.#flushed = Math.min(this.#flushed, writes)
    await this.#replay()
  }

  /** A copy that was made after the first `kept` writes is put in its place. */
  async putBack(kept: number): Promise<void> {
    this.torn = false
    await this.restore(kept)
  }

  /** Some writes have never happened, though nobody is told. */
  async forget(which: (write: Write) => boolean): Promise<void> {
    this.#log = this.#log.map(write => (write && which(write) ? undefined : write))
    await this.#replay()
  }

  async #replay(): Promise<void> {
    this.store = new MemoryStore({ durable: this.durable })
    for (const write of this.#log) if (write) await call(this.store, write.method, write.parameters)
  }

  /** As with any store whose head cannot be read, all that works is to discard it or to begin anew. */
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
