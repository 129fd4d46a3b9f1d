// A state that the core holds, with at most one pending lookup. Modes `full` and `single` extend it.

import type { Manifest } from '@keyhush/protocol'
import type { AskedHandle, LayoutHandle } from '@keyhush/wasm/client'
import { inCore, readBack, release } from '../platform/core.js'
import type { AskedState, Brought, Requests, SchemeContext, SchemeOptions, Sizes, Update } from './scheme.js'
import { storedForm } from './stored-form.js'

const NOTHING_PENDING = new Uint8Array(32)

export abstract class CoreState<H extends AskedHandle> implements AskedState {
  readonly kind = 'asked'
  protected readonly context: SchemeContext
  readonly #handle: H

  constructor(context: SchemeContext, handle: H) {
    this.context = context
    this.#handle = handle
  }

  abstract readonly sizes: Sizes
  abstract readonly recognises: boolean
  abstract suits(options: SchemeOptions): boolean
  abstract requests(manifest: Manifest): Requests
  abstract update(update: Update, after: LayoutHandle): Uint8Array
  abstract arrive(manifest: Manifest): undefined

  get id(): Uint8Array {
    return this.inCore(handle => handle.hintId)
  }

  get version(): number {
    return this.inCore(handle => handle.version)
  }

  get reach(): { readonly records: number; readonly partitions: number } {
    const { core } = this.context
    const layout = this.inCore(handle => handle.layout)
    const { records, partitions } = inCore(core, () => layout)
    const reach = { records, partitions }
    release(core, layout)
    return reach
  }

  get pending(): number {
    return this.inCore(handle => handle.pending)
  }

  query(indices: Uint32Array): void {
    const entropy = this.context.environment.random(32)
    this.inCore(handle => handle.query(indices, entropy))
  }

  pendingBytes(): Uint8Array {
    return this.inCore(handle => handle.pendingBytes())
  }

  resume(pending: Uint8Array): void {
    this.readBack(handle => handle.resume(pending))
  }

  withdraw(): void {
    this.inCore(handle => handle.withdraw())
  }

  pendingName(): Uint8Array {
    return this.pending > 0 ? this.inCore(handle => handle.pendingName()) : NOTHING_PENDING
  }

  finish(): Brought {
    return this.inCore(handle => ({ records: handle.recon(), effect: handle.takeEffect() }))
  }

  replay(entry: Uint8Array): void {
    this.readBack(handle => handle.replay(entry))
  }

  checkpoint(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.context, this.sizes, () => this.#handle.checkpoint(binding))
  }

  free(): void {
    release(this.context.core, this.#handle)
  }

  protected inCore<T>(work: (handle: H) => T): T {
    return inCore(this.context.core, () => work(this.#handle))
  }

  /** Has the core read what was stored. */
  protected readBack<T>(work: (handle: H) => T): T {
    return readBack(this.context.core, () => work(this.#handle))
  }
}
