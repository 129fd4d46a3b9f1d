// Prepares a hint (Fig. 4): each partition that arrives is folded into the parities.

import type { Manifest, Proofs } from '@keyhush/protocol'
import type { HintBuilderHandle, LayoutHandle } from '@keyhush/wasm/client'
import { inCore, release } from '../../platform/core.js'
import { costsOf } from '../costs.js'
import { downloadPartitions } from '../download.js'
import { HintState, suitsHint } from '../hint-state.js'
import type { Preparation, SchemeContext, SchemeOptions, SchemeState, Sources, Update } from '../scheme.js'
import { storedForm } from '../stored-form.js'
import { type Verifier, verifierOf } from '../verifier.js'

export class HintPreparation implements Preparation {
  readonly #context: SchemeContext
  readonly #builder: HintBuilderHandle
  readonly #proofs: Proofs
  readonly id: Uint8Array
  #manifest: Manifest
  /** for proofs that a package verifies; `finish` gives it to the hint */
  #verifier: Verifier | undefined
  #finished = false

  constructor(context: SchemeContext, manifest: Manifest, builder: HintBuilderHandle) {
    this.#context = context
    this.#manifest = manifest
    this.#builder = builder
    this.#proofs = inCore(context.core, () => builder.proofs)
    this.id = inCore(context.core, () => builder.hintId)
    this.#verifier = verifierOf(context, this.#proofs)
  }

  suits(options: SchemeOptions): boolean {
    return suitsHint(this.#proofs, this.#manifest, options)
  }

  async fetch(sources: Sources, signal: AbortSignal): Promise<void> {
    const equipped = this.#verifier?.equip(this.#manifest, sources, signal)
    if (equipped !== undefined) await equipped
    else if (this.#verifier !== undefined) sources.received(this.#verifier.heldBytes(this.#manifest))
    await downloadPartitions(this.#context, this.#manifest, this.#builder, sources, signal)
  }

  update(update: Update, before: LayoutHandle, after: LayoutHandle): void {
    const { list, manifest } = update
    const { commitments, contentHashes } = manifest
    inCore(this.#context.core, () => this.#builder.update(list, before, after, commitments, contentHashes))
    this.#manifest = manifest
    this.#verifier?.follow(update)
  }

  partial(binding: Uint8Array): Promise<Uint8Array> {
    const { held } = costsOf(this.#context.core, this.#manifest, 'full', this.#proofs)
    return storedForm(this.#context, held, () => this.#builder.partial(binding))
  }

  finish(version: number): SchemeState {
    this.#finished = true
    const client = inCore(this.#context.core, () => this.#builder.finish(version))
    const verifier = this.#verifier
    this.#verifier = undefined
    return new HintState(this.#context, client, this.#manifest, verifier)
  }

  free(): void {
    this.#verifier?.free()
    this.#verifier = undefined
    if (!this.#finished) release(this.#context.core, this.#builder)
    this.#finished = true
  }
}
