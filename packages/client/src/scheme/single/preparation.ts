// Prepares hints: first their random parts are drawn, then each partition that arrives is folded into all of them, in steps of some
// milliseconds.

import { type Manifest, toHex } from '@keyhush/protocol'
import type { LayoutHandle, SingleBuilderHandle } from '@keyhush/wasm/client'
import { Turns } from '../../base/mutex.js'
import { inCore, release } from '../../platform/core.js'
import { costsOf } from '../costs.js'
import { downloadPartitions, goSteps } from '../download.js'
import type { Preparation, Rows, SchemeContext, SchemeState, Sizes, Sources, Update } from '../scheme.js'
import { makeRoom, storedForm } from '../stored-form.js'
import { follows, sizesOf } from './core.js'
import { namedRow } from './rows.js'
import { SingleState } from './state.js'

export class SinglePreparation implements Preparation {
  readonly #context: SchemeContext
  readonly #builder: SingleBuilderHandle
  readonly id: Uint8Array
  readonly #turns = new Turns()
  /** of rows that this life of the page has stored */
  readonly #names = new Set<string>()
  #manifest: Manifest
  #finished = false

  constructor(context: SchemeContext, manifest: Manifest, builder: SingleBuilderHandle) {
    this.#context = context
    this.#manifest = manifest
    this.#builder = builder
    this.id = inCore(context.core, () => builder.hintId)
  }

  /** Also with another number of lookups. */
  suits(): boolean {
    return true
  }

  follows(before: Manifest, next: Manifest): boolean {
    return follows(this.#context.core, before, next)
  }

  /** what the finished hints hold */
  get #held(): Sizes {
    const { core, options } = this.#context
    const hintLookups = options.lookups ?? sizesOf(core, this.#manifest).lookups
    return costsOf(core, this.#manifest, 'single', undefined, { hintLookups }).held
  }

  async fetch(sources: Sources, signal: AbortSignal): Promise<void> {
    await makeRoom(this.#context, this.#held)
    await goSteps(this.#context, this.#builder, signal)
    const save = async () => {
      await this.#keep(sources.rows)
      await sources.save()
    }
    await downloadPartitions(this.#context, this.#manifest, this.#builder, { ...sources, save }, signal)
    await this.#keep(sources.rows)
  }

  get rows(): readonly string[] {
    return [...this.#names]
  }

  /** Stores the rows of tags that are whole. `partial` contains the others. */
  async #keep(rows: Rows): Promise<void> {
    await this.#turns.take(async () => {
      for (;;) {
        const row = inCore(this.#context.core, () => this.#builder.row())
        if (row.length === 0) return
        const { name, bytes } = namedRow(row)
        await rows.put(toHex(name), bytes)
        this.#names.add(toHex(name))
        inCore(this.#context.core, () => this.#builder.kept(name))
      }
    })
  }

  update({ list, manifest: next }: Update, before: LayoutHandle, after: LayoutHandle): void {
    inCore(this.#context.core, () => this.#builder.update(list, before, after, next.contentHashes))
    this.#manifest = next
  }

  settle(): Promise<void> {
    return goSteps(this.#context, this.#builder)
  }

  partial(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.#context, this.#held, () => this.#builder.partial(binding))
  }

  finish(version: number): SchemeState {
    this.#finished = true
    return new SingleState(
      this.#context,
      inCore(this.#context.core, () => this.#builder.finish(version)),
    )
  }

  free(): void {
    if (!this.#finished) release(this.#context.core, this.#builder)
    this.#finished = true
  }
}
