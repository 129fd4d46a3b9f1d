// Mode `local`: the client downloads the whole database, verifies each partition by its hash, keeps it, and follows updates. A lookup
// sends nothing, so it needs no assumption about servers. For small databases it is the cheapest mode. These do without WebAssembly.

import type { Manifest } from '@keyhush/protocol'
import type { LayoutHandle, LocalHandle } from '@keyhush/wasm/client'
import { UnsupportedError } from '../../base/errors.js'
import { hintsOf, inCore, readBack, release } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { StateUnreadableError } from '../../store/store.js'
import { costsOf } from '../costs.js'
import { databaseBytes, downloadPartitions, goSteps } from '../download.js'
import { LOCAL } from '../facts.js'
import type { HeldState, Preparation, SchemeContext, Sizes, Sources, StatefulScheme, Update } from '../scheme.js'
import { fromStored, makeRoom, storedForm } from '../stored-form.js'

const ID_BYTES = 16
/** The most that the core in JavaScript takes. It hashes 40 MB in a second, on a phone six times less. */
const SCRIPT_BYTES = 8 << 20

export const local: StatefulScheme = {
  ...LOCAL,
  fencedBy: undefined,

  isOffered: ({ blobs }) => blobs,

  costs(core, manifest, { usage }) {
    return { ...costsOf(core, manifest, 'local', undefined, usage), maxQueries: manifest.maxQueries }
  },

  prepareBytes(core, manifest) {
    const bytes = databaseBytes(manifest)
    if (core.kind === 'script' && bytes > SCRIPT_BYTES) {
      const what = `expected at most ${SCRIPT_BYTES} bytes without WebAssembly, got ${bytes}`
      throw new UnsupportedError('memory', `${what}; allow WebAssembly, or use 'instant' with two servers`)
    }
    return bytes
  },

  async prepare(context, manifest) {
    const { core, environment } = context
    await makeRoom(context, { records: databaseBytes(manifest) })
    const id = environment.random(ID_BYTES)
    const handle = withLayout(core, manifest, layout =>
      inCore(core, () => hintsOf(core).newLocal(layout, manifest.contentHashes, id)),
    )
    return new LocalPreparation(context, manifest, handle)
  },

  async resume(context, manifest, partial, binding) {
    return new LocalPreparation(context, manifest, await resumed(context, manifest, partial, binding))
  },

  async reopen(context, manifest, checkpoint, binding) {
    return new LocalState(context, await resumed(context, manifest, checkpoint, binding))
  },
}

async function resumed(
  context: SchemeContext,
  manifest: Manifest,
  stored: Uint8Array,
  binding: Uint8Array,
): Promise<LocalHandle> {
  const { core } = context
  return await fromStored(context, stored, form =>
    withLayout(core, manifest, layout => hintsOf(core).resumeLocal(form, layout, manifest.contentHashes, binding)),
  )
}

/** Hashes what an update changes, where that takes long. */
async function foreseen(context: SchemeContext, handle: LocalHandle, { list, manifest }: Update): Promise<void> {
  const { core } = context
  withLayout(core, manifest, after => inCore(core, () => handle.foresee!(list, after, manifest.contentHashes)))
  await goSteps(context, handle)
}

class LocalPreparation implements Preparation {
  readonly #context: SchemeContext
  readonly #handle: LocalHandle
  readonly id: Uint8Array
  #manifest: Manifest
  #finished = false

  constructor(context: SchemeContext, manifest: Manifest, handle: LocalHandle) {
    this.#context = context
    this.#manifest = manifest
    this.#handle = handle
    this.id = inCore(context.core, () => handle.id)
  }

  suits(): boolean {
    return true
  }

  async fetch(sources: Sources, signal: AbortSignal): Promise<void> {
    await downloadPartitions(this.#context, this.#manifest, this.#handle, sources, signal)
  }

  foresee(update: Update): Promise<void> | undefined {
    return this.#handle.foresee && foreseen(this.#context, this.#handle, update)
  }

  update({ list, manifest: next }: Update, _before: LayoutHandle, after: LayoutHandle): void {
    inCore(this.#context.core, () => this.#handle.update(list, after, next.contentHashes))
    this.#manifest = next
  }

  partial(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.#context, { records: databaseBytes(this.#manifest) }, () => this.#handle.encode(binding))
  }

  finish(version: number): HeldState {
    this.#finished = true
    try {
      inCore(this.#context.core, () => this.#handle.finish(version))
      return new LocalState(this.#context, this.#handle)
    } catch (error) {
      release(this.#context.core, this.#handle)
      throw error
    }
  }

  free(): void {
    if (!this.#finished) release(this.#context.core, this.#handle)
    this.#finished = true
  }
}

class LocalState implements HeldState {
  readonly kind = 'held'
  readonly #context: SchemeContext
  readonly #handle: LocalHandle

  constructor(context: SchemeContext, handle: LocalHandle) {
    this.#context = context
    this.#handle = handle
  }

  get id(): Uint8Array {
    return this.#inCore(handle => handle.id)
  }

  get version(): number {
    return this.#inCore(handle => handle.version)
  }

  get sizes(): Sizes {
    const { partitions, partitionBytes } = this.#layout()
    return { records: partitions * partitionBytes }
  }

  get reach(): { readonly records: number; readonly partitions: number } {
    const { records, partitions } = this.#layout()
    return { records, partitions }
  }

  suits(): boolean {
    return true
  }

  records(indices: Uint32Array): Uint8Array {
    return this.#inCore(handle => handle.records(indices))
  }

  foresee(update: Update): Promise<void> | undefined {
    return this.#handle.foresee && foreseen(this.#context, this.#handle, update)
  }

  update({ list, manifest }: Update, after: LayoutHandle): Uint8Array {
    const entry = this.#inCore(handle => handle.update(list, after, manifest.contentHashes))
    if (entry === undefined) throw new StateUnreadableError('partitions are missing')
    return entry
  }

  replay(entry: Uint8Array): void {
    readBack(this.#context.core, () => this.#handle.replay(entry))
  }

  /** Hashes all of it. */
  async arrive({ contentHashes }: Manifest): Promise<void> {
    const { core, environment } = this.#context
    for (let next: number | undefined = 0; ; ) {
      const first: number = next
      next = readBack(core, () => this.#handle.arrive(contentHashes, first))
      if (next === undefined) return
      await environment.pause()
    }
  }

  checkpoint(binding: Uint8Array): Promise<Uint8Array> {
    return storedForm(this.#context, this.sizes, () => this.#handle.encode(binding))
  }

  free(): void {
    release(this.#context.core, this.#handle)
  }

  #layout(): Pick<LayoutHandle, 'records' | 'partitions' | 'partitionBytes'> {
    return this.#inCore(handle => {
      const layout = handle.layout
      const { records, partitions, partitionBytes } = layout
      layout.free()
      return { records, partitions, partitionBytes }
    })
  }

  #inCore<T>(work: (handle: LocalHandle) => T): T {
    return inCore(this.#context.core, () => work(this.#handle))
  }
}
