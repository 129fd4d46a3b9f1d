// A hint in the making (Fig. 4): partitions stream in and are folded into the parities.

import type { Manifest, Proofs } from '@pirouette/protocol'
import type { HintBuilderHandle, LayoutHandle } from '@pirouette/wasm/client'
import { inCore, release } from '../../platform/core.js'
import { downloadPartitions } from '../download.js'
import { HintState } from '../hint-state.js'
import type { Preparation, SchemeContext, SchemeOptions, SchemeState, Sources } from '../scheme.js'
import { storedForm } from '../stored-form.js'

export class HintPreparation implements Preparation {
  readonly #context: SchemeContext
  readonly #builder: HintBuilderHandle
  readonly #proofs: Proofs
  readonly id: Uint8Array
  readonly resumable = true
  #manifest: Manifest
  #finished = false

  constructor(context: SchemeContext, manifest: Manifest, builder: HintBuilderHandle) {
    this.#context = context
    this.#manifest = manifest
    this.#builder = builder
    this.#proofs = inCore(context.core, () => builder.proofs)
    this.id = inCore(context.core, () => builder.hintId)
  }

  suits({ proofs }: SchemeOptions): boolean {
    return proofs === 'auto' || proofs === this.#proofs
  }

  async fetch(sources: Sources, signal: AbortSignal): Promise<void> {
    await downloadPartitions(this.#context, this.#manifest, this.#builder, sources, signal)
  }

  update(list: Uint8Array, before: LayoutHandle, after: LayoutHandle, next: Manifest): void {
    const { commitments, contentHashes } = next
    inCore(this.#context.core, () => this.#builder.update(list, before, after, commitments, contentHashes))
    this.#manifest = next
  }

  partial(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.#context, () => this.#builder.partial(binding))
  }

  finish(version: number): SchemeState {
    this.#finished = true
    return new HintState(
      this.#context,
      inCore(this.#context.core, () => this.#builder.finish(version)),
    )
  }

  free(): void {
    if (!this.#finished) release(this.#context.core, this.#builder)
    this.#finished = true
  }
}
