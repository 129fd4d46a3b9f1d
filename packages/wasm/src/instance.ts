// A WebAssembly instance of a build. There is one at a time, for everything in this realm.
//
// wasm-bindgen's glue keeps the instance in a module variable. Handles remember their instance, and refuse to run on another.
// After a trap the instance's memory cannot be trusted, so the instance is replaced, never reused.

import type { WasmMemory, WasmModule } from './core.js'

/** The functions of every build's glue that start and replace an instance. */
export interface Glue {
  initSync(source: { module: WasmModule }): { readonly memory: WasmMemory }
  /** the next call of another function goes to a fresh instance */
  restart(): void
  blake3(bytes: Uint8Array): Uint8Array
}

/** The `Instance` that each core belongs to. */
const owners = new WeakMap<object, { discard(core: object): void }>()

/** Call it after a trap: drops `core`'s instance. */
export function discardInstance(core: object): void {
  owners.get(core)?.discard(core)
}

/** The running core of one build, and its replacement. */
export class Instance<C extends object> {
  readonly #glue: Glue
  readonly #core: (memory: WasmMemory) => C
  #loading: Promise<WasmModule> | undefined
  #current: C | undefined

  /** `core` makes the interface, from an instance's memory and the glue's functions. */
  constructor(glue: Glue, core: (memory: WasmMemory) => C) {
    this.#glue = glue
    this.#core = core
  }

  /** The running core. If none runs, starts it from `source`, which is called once. */
  async load(source: () => Promise<WasmModule>): Promise<C> {
    this.#loading ??= source()
    try {
      const module = await this.#loading
      this.#current ??= this.#core(this.#glue.initSync({ module }).memory)
      owners.set(this.#current, this)
      return this.#current
    } catch (error) {
      this.#loading = undefined // a failed download or compilation may succeed next time
      throw error
    }
  }

  /** Call it after a trap: drops `core`'s instance. The next `load` starts another. */
  discard(core: object): void {
    if (core !== this.#current) return
    this.#current = undefined
    this.#glue.restart()
    try {
      this.#glue.blake3(new Uint8Array()) // now, so that no handle of the old instance reaches the new one
    } catch {
      this.#glue.restart() // there is no memory for a new one: the next call tries again
    }
  }
}
