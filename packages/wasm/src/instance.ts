// One WebAssembly instance at a time, shared by everything in this realm.
//
// wasm-bindgen's glue keeps the instance in a module variable; handles remember which instance they belong to and
// refuse to run on another. After a trap the instance's memory cannot be trusted, so it is replaced, never reused.

import type { InstantCore, WasmMemory, WasmModule } from './core.js'

/** What every build's glue has to start an instance and to replace it. */
export interface Glue {
  initSync(source: { module: WasmModule }): { readonly memory: WasmMemory }
  /** the next call of another function goes to a fresh instance */
  restart(): void
  blake3(bytes: Uint8Array): Uint8Array
}

/** Whose instance a core is. */
const owners = new WeakMap<InstantCore, { discard(core: InstantCore): void }>()

/** After a trap: abandons `core`'s instance. */
export function discardInstance(core: InstantCore): void {
  owners.get(core)?.discard(core)
}

/** The running core of one build, and its replacement. */
export class Instance<C extends InstantCore> {
  readonly #glue: Glue
  readonly #core: (memory: WasmMemory) => C
  #loading: Promise<WasmModule> | undefined
  #current: C | undefined

  /** `core` makes the interface of an instance out of its memory and the glue's functions. */
  constructor(glue: Glue, core: (memory: WasmMemory) => C) {
    this.#glue = glue
    this.#core = core
  }

  /** The running core, started from `source` (asked once) if none is. */
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

  /** After a trap: abandons `core`'s instance and starts another for the next `load`. */
  discard(core: InstantCore): void {
    if (core !== this.#current) return
    this.#glue.restart()
    this.#glue.blake3(new Uint8Array()) // now, so that no handle of the old instance reaches the new one
    this.#current = undefined
  }
}
