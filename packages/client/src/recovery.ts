// The ways to a hint that can be used: a new one (Fig. 4), the rest of a half-made one (S6), and one brought back from
// the store (S3). All or nothing: whatever does not fit together is a StateUnreadableError, and nothing of it is used.

import { equalBytes } from '@pirouette/protocol'
import type { ClientHandle, Core, DirectoryHandle, HintBuilderHandle } from '@pirouette/wasm'
import { ROUNDS } from './constants.js'
import { inCore, readBack, release } from './core.js'
import type { Environment } from './environment.js'
import { bindingOf, drawRecord, Hint, hintIdIn, rolesOf, withLayout } from './hint.js'
import { type Agreed, readManifest } from './manifest.js'
import { Download, isDirectoryOf } from './offline.js'
import type { ProgressMeter } from './progress.js'
import type { ServerPair } from './servers.js'
import type { StatsKeeper } from './stats.js'
import { isMoved } from './storage.js'
import {
  type HintRecord,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
} from './store/store.js'
import type { Link } from './transport.js'
import { Turns } from './turns.js'

export interface Surroundings {
  readonly core: Core
  readonly environment: Environment
  readonly servers: ServerPair
  readonly links: readonly [Link, Link]
  readonly store: StateStore
  readonly stats: StatsKeeper
}

/** A download, how far it has come, and how to call it off. */
export interface Watch {
  readonly progress: ProgressMeter
  readonly signal: AbortSignal
}

/** A new life in place of the hint whose id is `replaces`. From its first moment on it is the one that is stored. */
export async function begin(
  around: Surroundings,
  agreed: Agreed,
  replaces: Uint8Array | undefined,
  watch: Watch,
): Promise<Hint> {
  const download = newDownload(around, agreed, watch)
  const draft = await newDraft(around, agreed, download, watch.signal)
  try {
    await draft.begin(replaces)
    await download.partitions(draft.builder, { gently: false, save: draft.saver() }, watch.signal)
    watch.signal.throwIfAborted()
    return await draft.complete()
  } finally {
    draft.free()
  }
}

/**
 * A new life in place of whatever is stored, but only once it is whole: until then the old one stays, a condemned one
 * condemned. Nothing of it is kept if it does not come that far.
 */
export async function replace(
  around: Surroundings,
  agreed: Agreed,
  replaced: () => Promise<Uint8Array | undefined>,
  watch: Watch,
): Promise<Hint> {
  const download = newDownload(around, agreed, watch)
  const draft = await newDraft(around, agreed, download, watch.signal)
  try {
    await download.partitions(draft.builder, { gently: false, save: async () => {} }, watch.signal)
    watch.progress.phase('ready') // all that can be called off is done
    watch.signal.throwIfAborted()
    for (let round = 1; ; round++) {
      try {
        await draft.begin(await replaced())
        return await draft.complete()
      } catch (error) {
        if (draft.finished || !isMoved(error) || round === ROUNDS) throw error
      }
    }
  } finally {
    draft.free()
  }
}

/** Goes on with a stored half-made hint. `readable` is called once it has turned out to be one. */
export async function resume(
  around: Surroundings,
  record: HintRecord,
  agreed: Agreed,
  watch: Watch,
  readable: () => void,
): Promise<Hint> {
  const { core, store } = around
  const { manifest } = agreed
  const { partial, directory } = await store.readPartial(record.hintId)
  if (!equalBytes(hintIdIn(partial), record.hintId)) throw unreadable('the half-made hint is not the one on record')
  const handle = readDirectory(around, agreed, directory)
  let draft: Draft | undefined
  try {
    const builder = withLayout(core, manifest, layout =>
      readBack(core, () =>
        core.resumeHintBuilder(
          partial,
          layout,
          manifest.commitments,
          manifest.contentHashes,
          bindingOf(core, agreed.bytes),
        ),
      ),
    )
    draft = new Draft(around, agreed, record, builder, { bytes: directory, handle })
    readable()
    const download = newDownload(around, agreed, watch)
    watch.progress.add(directory.length)
    await download.partitions(builder, { gently: true, save: draft.saver() }, watch.signal)
    watch.signal.throwIfAborted()
    return await draft.complete()
  } finally {
    if (draft) draft.free()
    else release(core, handle)
  }
}

/** Brings a whole hint back, journal and pending batch included. Throws StateMovedError if `head` is not the newest. */
export async function reopen(around: Surroundings, head: StateHead, agreed: Agreed): Promise<Hint> {
  const { core, store, servers } = around
  const { record, version, pending } = head
  const stored = await store.readHint(record.hintId)
  const manifest = readManifest(stored.manifest)
  if (manifest === undefined) throw unreadable('the manifest of the stored checkpoint says nothing we understand')
  let handle: DirectoryHandle | undefined
  let client: ClientHandle | undefined
  try {
    handle = readDirectory(around, { manifest, bytes: stored.manifest }, stored.directory)
    client = withLayout(core, manifest, layout =>
      readBack(core, () =>
        core.reopenClient(stored.checkpoint, layout, manifest.commitments, bindingOf(core, stored.manifest)),
      ),
    )
    const hint = new Hint({
      core,
      record,
      manifest: agreed.manifest,
      client,
      directory: handle,
      roles: rolesOf(record, servers),
    })
    if (
      !equalBytes(
        inCore(core, () => hint.client.hintId),
        record.hintId,
      )
    ) {
      throw unreadable('the stored hint is not the one on record')
    }
    for (const entry of stored.entries) readBack(core, () => hint.client.replay(entry))
    if (hint.version > version) throw new StateMovedError('the hint is newer than its head')
    if (hint.version < version) throw unreadable('entries are missing')
    if (pending !== undefined) readBack(core, () => hint.client.resume(pending))
    return hint
  } catch (error) {
    release(core, client)
    release(core, handle)
    throw error
  }
}

/** A hint in the making, with what is stored of it. */
class Draft {
  readonly #around: Surroundings
  readonly #agreed: Agreed
  readonly #record: HintRecord
  readonly #directory: { readonly bytes: Uint8Array; readonly handle: DirectoryHandle | undefined }
  readonly builder: HintBuilderHandle
  /** its builder has become a hint, or nothing */
  finished = false
  #handedOver = false

  constructor(
    around: Surroundings,
    agreed: Agreed,
    record: HintRecord,
    builder: HintBuilderHandle,
    directory: { readonly bytes: Uint8Array; readonly handle: DirectoryHandle | undefined },
  ) {
    this.#around = around
    this.#agreed = agreed
    this.#record = record
    this.builder = builder
    this.#directory = directory
  }

  async begin(replaces: Uint8Array | undefined): Promise<void> {
    const { store } = this.#around
    const directory = store.durable ? this.#directory.bytes : NOTHING
    await store.begin(this.#record, this.#partial(), directory, replaces)
  }

  /** Stores what is folded. One write at a time; those that wait for theirs share the next. */
  saver(): () => Promise<void> {
    const { store } = this.#around
    if (!store.durable) return async () => {}
    const turns = new Turns()
    let next: Promise<void> | undefined
    return () => {
      next ??= turns.take(async () => {
        next = undefined
        await store.putPartial(this.#record.hintId, 0, this.#partial())
      })
      return next
    }
  }

  /** The hint, all partitions folded, stored as whole. */
  async complete(): Promise<Hint> {
    const { core, store, servers } = this.#around
    this.finished = true // consumed, even if it fails
    const client = inCore(core, () => this.builder.finish())
    try {
      const { manifest, bytes } = this.#agreed
      const checkpoint = store.durable ? inCore(core, () => client.checkpoint(bindingOf(core, bytes))) : NOTHING
      await store.complete(this.#record.hintId, 0, checkpoint)
      const { handle: directory } = this.#directory
      const hint = new Hint({
        core,
        record: this.#record,
        manifest,
        client,
        directory,
        roles: rolesOf(this.#record, servers),
      })
      this.#handedOver = true
      return hint
    } catch (error) {
      release(core, client)
      throw error
    }
  }

  /** Frees what has not become part of a hint. */
  free(): void {
    const { core } = this.#around
    if (!this.finished) release(core, this.builder)
    if (!this.#handedOver) release(core, this.#directory.handle)
  }

  #partial(): Uint8Array {
    const { core, store } = this.#around
    return store.durable ? inCore(core, () => this.builder.partial(bindingOf(core, this.#agreed.bytes))) : NOTHING
  }
}

const NOTHING = new Uint8Array()

async function newDraft(around: Surroundings, agreed: Agreed, download: Download, signal: AbortSignal): Promise<Draft> {
  const { core, environment, servers } = around
  const { manifest, bytes } = agreed
  const directory = await download.directory(signal)
  let builder: HintBuilderHandle | undefined
  try {
    builder = withLayout(core, manifest, layout =>
      inCore(core, () =>
        core.newHintBuilder(layout, manifest.commitments, manifest.contentHashes, environment.random(32)),
      ),
    )
    const made = builder
    const hintId = hintIdIn(inCore(core, () => made.partial(bindingOf(core, bytes))))
    return new Draft(around, agreed, drawRecord(hintId, bytes, servers, environment.random), made, directory)
  } catch (error) {
    release(core, builder)
    release(core, directory.handle)
    throw error
  }
}

function newDownload({ core, environment, links, stats }: Surroundings, { manifest }: Agreed, { progress }: Watch) {
  return new Download({ core, environment, manifest, links, progress, stats })
}

/** The stored directory; undefined in a keyless database. */
function readDirectory({ core }: Surroundings, { manifest }: Agreed, bytes: Uint8Array): DirectoryHandle | undefined {
  if (!manifest.keyed) return undefined
  if (!isDirectoryOf(core, manifest, bytes)) throw unreadable('the stored directory is not the one of its manifest')
  return readBack(core, () => core.decodeDirectory(bytes, manifest.records))
}

function unreadable(message: string): StateUnreadableError {
  return new StateUnreadableError(message)
}
