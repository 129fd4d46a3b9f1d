// The ways to a hint that can be used: a new one (Fig. 4), the rest of a half-made one (S6), and one brought back from
// the store (S3). All or nothing: whatever does not fit together is a StateUnreadableError, and nothing of it is used.

import { equalBytes, type Manifest, partitionBytes } from '@pirouette/protocol'
import type { ClientHandle, Core, DirectoryHandle, HintBuilderHandle } from '@pirouette/wasm'
import { applied, replay } from './advance.js'
import { ROUNDS } from './constants.js'
import { inCore, readBack, release } from './core.js'
import type { Environment } from './environment.js'
import { ServerError, UnsupportedError } from './errors.js'
import { type RollbackPreference, register } from './fence.js'
import { bindingOf, drawRecord, Hint, refreshLink, rolesOf, withLayout } from './hint.js'
import { type Agreed, readManifest } from './manifest.js'
import { Download, isDirectoryOf } from './offline.js'
import type { ProgressMeter } from './progress.js'
import { chooseProofs, type ProofsPreference } from './proofs.js'
import type { Publisher } from './publisher.js'
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
import { OutdatedError, stepsAfter } from './sync.js'
import type { Link } from './transport.js'
import { Turns } from './turns.js'

export interface Surroundings {
  readonly core: Core
  readonly environment: Environment
  readonly servers: ServerPair
  readonly links: readonly [Link, Link]
  readonly fences: readonly [Link, Link]
  readonly store: StateStore
  readonly stats: StatsKeeper
  readonly publisher: Publisher | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  /** what both servers agree on, asked anew each time */
  readonly newest: (watch: Watch) => Promise<Agreed>
}

/** A download, how far it has come, and how to call it off. */
export interface Watch {
  readonly progress: ProgressMeter
  readonly signal: AbortSignal
}

/**
 * A new life in place of the hint whose id is `replaces`. From its first moment on it is the one that is stored. Throws
 * OutdatedError, and nothing is stored then, if no update leads on from where its download began.
 */
export async function begin(around: Surroundings, replaces: Uint8Array | undefined, watch: Watch): Promise<Hint> {
  const draft = await newDraft(around, watch)
  try {
    await draft.begin(replaces, watch.signal)
    await draft.fold(watch, false)
    return await draft.complete()
  } catch (error) {
    if (error instanceof OutdatedError) await draft.discard()
    throw error
  } finally {
    draft.free()
  }
}

/** A hint that is whole but for being stored. Whoever has it frees it. */
export async function prepare(around: Surroundings, watch: Watch): Promise<Draft> {
  const draft = await newDraft(around, watch)
  try {
    await draft.fold(watch, false)
    return draft
  } catch (error) {
    draft.free()
    throw error
  }
}

/** Puts a hint that was prepared in place of whatever is stored, a condemned one, too. Frees what is left of it. */
export async function install(
  draft: Draft,
  replaced: () => Promise<Uint8Array | undefined>,
  signal: AbortSignal,
): Promise<Hint> {
  try {
    for (let round = 1; ; round++) {
      const replaces = await replaced()
      try {
        await draft.begin(replaces, signal)
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
  { record, version }: StateHead,
  watch: Watch,
  readable: () => void,
): Promise<Hint> {
  const { core, store } = around
  const agreed = { manifest: storedManifest(record.manifest), bytes: record.manifest }
  const { partial, directory, version: read } = await store.readPartial(record.hintId)
  if (read !== version) throw new StateMovedError('the half-made hint is not the one of its head')
  const handle = readDirectory(core, agreed.manifest, directory)
  let draft: Draft | undefined
  try {
    const { commitments, contentHashes } = agreed.manifest
    const builder = withLayout(core, agreed.manifest, layout =>
      readBack(core, () =>
        core.resumeHintBuilder(partial, layout, commitments, contentHashes, bindingOf(core, agreed.bytes)),
      ),
    )
    draft = new Draft(around, agreed, record, builder, { bytes: directory, handle }, { version })
    const hintId = inCore(core, () => builder.hintId)
    if (!equalBytes(hintId, record.hintId)) throw unreadable('the half-made hint is not the one on record')
    const proofs = inCore(core, () => builder.proofs)
    if (around.proofs !== 'auto' && around.proofs !== proofs) throw unreadable('it is for another kind of proof')
    readable()
    await draft.follow(watch.signal)
    await draft.fold(watch, true)
    return await draft.complete()
  } finally {
    if (draft) draft.free()
    else release(core, handle)
  }
}

/** Brings a whole hint back, journal and pending batch included. Throws StateMovedError if `head` is not the newest. */
export async function reopen({ core, store, servers }: Surroundings, head: StateHead): Promise<Hint> {
  const { record, version, pending } = head
  const stored = await store.readHint(record.hintId)
  const arrived = stored.version + stored.entries.length
  if (arrived > version) throw new StateMovedError('the hint is newer than its head')
  if (arrived < version) throw unreadable('entries are missing')
  const manifest = storedManifest(stored.manifest)
  let directory: DirectoryHandle | undefined
  let client: ClientHandle | undefined
  let hint: Hint | undefined
  try {
    directory = readDirectory(core, manifest, stored.directory)
    client = withLayout(core, manifest, layout =>
      readBack(core, () =>
        core.reopenClient(stored.checkpoint, layout, manifest.commitments, bindingOf(core, stored.manifest)),
      ),
    )
    const then = { ...record, manifest: stored.manifest }
    hint = new Hint({ core, record: then, manifest, client, directory, roles: rolesOf(record, servers) })
    const hintId = inCore(core, () => client!.hintId)
    if (!equalBytes(hintId, record.hintId)) throw unreadable('the stored hint is not the one on record')
    replay(hint, stored.entries, { manifest: storedManifest(record.manifest), bytes: record.manifest })
    if (hint.version !== version) throw unreadable('the journal is not the one that follows the checkpoint')
    if (pending !== undefined) readBack(core, () => client!.resume(pending))
    return hint
  } catch (error) {
    if (hint !== undefined) hint.free()
    else {
      release(core, client)
      release(core, directory)
    }
    throw error
  }
}

/** A hint in the making, with what is stored of it. */
export class Draft {
  readonly #around: Surroundings
  readonly builder: HintBuilderHandle
  /** its builder has become a hint, or nothing */
  finished = false
  #agreed: Agreed
  #record: HintRecord
  #directory: { readonly bytes: Uint8Array; readonly handle: DirectoryHandle | undefined }
  /** the one under way, which knows what servers have failed; of this epoch alone */
  #download: Download | undefined
  /** of what is stored: updates applied; undefined: nothing is */
  #version: number | undefined
  /** whether its fence has been asked */
  #registered: boolean
  #handedOver = false

  constructor(
    around: Surroundings,
    agreed: Agreed,
    record: HintRecord,
    builder: HintBuilderHandle,
    directory: { readonly bytes: Uint8Array; readonly handle: DirectoryHandle | undefined },
    { version, download }: { readonly version?: number; readonly download?: Download },
  ) {
    this.#around = around
    this.#agreed = agreed
    this.#record = record
    this.builder = builder
    this.#directory = directory
    this.#download = download
    this.#version = version
    this.#registered = version !== undefined
  }

  /** of the epoch it has come to */
  get manifest(): Manifest {
    return this.#agreed.manifest
  }

  /** Stores it for the first time; the refresh server's fence is told before (S8). */
  async begin(replaces: Uint8Array | undefined, signal: AbortSignal): Promise<void> {
    await this.#register(signal)
    const { store } = this.#around
    const directory = store.durable ? this.#directory.bytes : NOTHING
    const record = { ...this.#record, manifest: this.#agreed.bytes }
    await store.begin(record, this.#partial(), directory, replaces)
    this.#record = record
    this.#version = 0
  }

  /**
   * Takes what is stored of it away. Throws StateMovedError if another tab has taken it up and further, or has begun anew.
   */
  async discard(): Promise<void> {
    const head = await this.#around.store.read()
    const { hintId, manifest } = this.#record
    const same = head?.stage === 'partial' && equalBytes(head.record.hintId, hintId)
    if (!same || !equalBytes(head.record.manifest, manifest)) {
      throw new StateMovedError('another tab has moved the state on')
    }
    await this.#around.store.discard(this.#record.hintId)
  }

  async #register(signal: AbortSignal): Promise<void> {
    if (this.#registered) return
    const { fences, rollback } = this.#around
    const link = refreshLink(this.#record, fences)
    const { databaseId } = this.#agreed.manifest
    const fenced = await register(link, { databaseId, hintId: this.#record.hintId }, signal)
    if (!fenced && rollback === 'strict') {
      const instead = "choose servers that keep one, or open without rollback: 'strict'"
      throw new UnsupportedError(`${link.server.name} keeps no rollback fence, or it is full; ${instead}`)
    }
    this.#record = { ...this.#record, fenced }
    this.#registered = true
  }

  /** Downloads and folds all partitions that are missing, at whatever epochs the servers move on to meanwhile. */
  async fold(watch: Watch, gently: boolean): Promise<void> {
    for (;;) {
      const download = this.#download ?? this.#startDownload(watch)
      try {
        await download.partitions(this.builder, { gently, save: this.#saver() }, watch.signal)
        watch.signal.throwIfAborted()
        return
      } catch (error) {
        // Both have failed to give a partition: perhaps because it is another by now.
        if (!(error instanceof ServerError) || watch.signal.aborted) throw error
        if (!(await this.follow(watch.signal))) throw error
        this.#download = undefined
      }
    }
  }

  #startDownload(watch: Watch): Download {
    this.#download = newDownload(this.#around, this.#agreed, watch)
    watch.progress.add(this.#directory.bytes.length)
    return this.#download
  }

  /** Brings what is folded to the newest epoch. Whether there was one. Throws OutdatedError. */
  async follow(signal: AbortSignal): Promise<boolean> {
    const { core, store } = this.#around
    const proofs = inCore(core, () => this.builder.proofs)
    const steps = await stepsAfter({ ...this.#agreed, proofs }, this.#around, signal)
    for (const step of steps) {
      const { manifest, list } = step
      const followed = { manifest: this.#agreed.manifest, directory: this.#directory.handle }
      const [, handle] = applied(core, followed, step, after =>
        withLayout(core, followed.manifest, before =>
          this.builder.update(list, before, after, manifest.commitments, manifest.contentHashes),
        ),
      )
      this.#agreed = step
      if (handle !== undefined) {
        release(core, this.#directory.handle)
        this.#directory = { bytes: inCore(core, () => handle.encode()), handle }
      }
      if (this.#version === undefined) continue
      const directory = store.durable ? this.#directory.bytes : NOTHING
      const next = { manifest: step.bytes, partial: this.#partial(), directory }
      await store.updatePartial(this.#record.hintId, this.#version, next)
      this.#record = { ...this.#record, manifest: step.bytes }
      this.#version++
    }
    return steps.length > 0
  }

  /**
   * Stores what is folded, after each partition. One write at a time; those that wait for theirs share the next. With tags
   * it grows with every partition: then not after each, so that two bytes are written for each one downloaded, at most.
   */
  #saver(): () => Promise<void> {
    const { store } = this.#around
    const version = this.#version
    if (!store.durable || version === undefined) return async () => {}
    const bytes = partitionBytes(this.#agreed.manifest)
    const turns = new Turns()
    let next: Promise<void> | undefined
    let stored = 0
    let since = 0
    return async () => {
      since += bytes
      if (2 * since < stored) return
      next ??= turns.take(async () => {
        next = undefined
        since = 0
        const partial = this.#partial()
        stored = partial.length
        await store.putPartial(this.#record.hintId, version, partial)
      })
      await next
    }
  }

  /** The hint, all partitions folded, stored as whole. */
  async complete(): Promise<Hint> {
    const { core, store, servers } = this.#around
    this.finished = true // consumed, even if it fails
    const version = this.#version ?? 0
    const client = inCore(core, () => this.builder.finish(version))
    try {
      const { manifest, bytes } = this.#agreed
      const record = this.#record
      const checkpoint = store.durable ? inCore(core, () => client.checkpoint(bindingOf(core, bytes))) : NOTHING
      await store.complete(record.hintId, version, checkpoint)
      const { handle: directory } = this.#directory
      const hint = new Hint({ core, record, manifest, client, directory, roles: rolesOf(record, servers) })
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
    this.finished = true
    this.#handedOver = true
  }

  #partial(): Uint8Array {
    const { core, store } = this.#around
    return store.durable ? inCore(core, () => this.builder.partial(bindingOf(core, this.#agreed.bytes))) : NOTHING
  }
}

const NOTHING = new Uint8Array()

/** The directory and an empty builder, of the newest epoch of which the directory could be had. */
async function newDraft(around: Surroundings, watch: Watch): Promise<Draft> {
  const { core, environment, servers } = around
  let agreed = await around.newest(watch)
  let download: Download
  let directory: Awaited<ReturnType<Download['directory']>>
  for (;;) {
    download = newDownload(around, agreed, watch)
    try {
      directory = await download.directory(watch.signal)
      break
    } catch (error) {
      if (!(error instanceof ServerError) || watch.signal.aborted) throw error
      const now = await around.newest(watch)
      if (equalBytes(now.bytes, agreed.bytes)) throw error
      agreed = now
    }
  }
  let builder: HintBuilderHandle | undefined
  try {
    const { manifest, bytes } = agreed
    const proofs = chooseProofs(manifest, around.proofs)
    builder = withLayout(core, manifest, layout =>
      inCore(core, () =>
        core.newHintBuilder(layout, manifest.commitments, manifest.contentHashes, environment.random(32), proofs),
      ),
    )
    const made = builder
    const hintId = inCore(core, () => made.hintId)
    const record = drawRecord(hintId, bytes, servers, environment.random)
    return new Draft(around, agreed, record, made, directory, { download })
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
function readDirectory(core: Core, manifest: Manifest, bytes: Uint8Array): DirectoryHandle | undefined {
  if (!manifest.keyed) return undefined
  if (!isDirectoryOf(core, manifest, bytes)) throw unreadable('the stored directory is not the one of its manifest')
  return readBack(core, () => core.decodeDirectory(bytes, manifest.records))
}

function storedManifest(bytes: Uint8Array): Manifest {
  const manifest = readManifest(bytes)
  if (manifest === undefined) throw unreadable('a stored manifest says nothing we understand')
  return manifest
}

function unreadable(message: string): StateUnreadableError {
  return new StateUnreadableError(message)
}
