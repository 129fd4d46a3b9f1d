// A hint that is being made, and its stored form: a new one (Fig. 4), or the rest of a half-made one (S6).

import { equalBytes, type Manifest, partitionBytes } from '@keyhush/protocol'
import type { DirectoryHandle } from '@keyhush/wasm/client'
import { ServerError, UnsupportedError } from '../base/errors.js'
import { inCore, release } from '../platform/core.js'
import { withLayout } from '../platform/layout.js'
import { downloadDirectory } from '../scheme/download.js'
import type { Preparation, SchemeState, StatefulScheme } from '../scheme/scheme.js'
import { askAll } from '../servers/ask.js'
import { claimVersion, Fence, NO_REQUEST, register } from '../servers/fence.js'
import type { Agreed } from '../servers/manifests.js'
import { OutdatedError } from '../servers/path.js'
import type { Link, Links } from '../servers/transport.js'
import { StoreFailure } from '../store/storage.js'
import { type HintRecord, StateMovedError, type StateStore } from '../store/store.js'
import { applied } from './applying.js'
import { heldPartition } from './held.js'
import { baseOf, bindingOf, drawRecord, fenceLinks, Hint, knowingFences, partiesOf } from './hint.js'
import type { Caller, Machine } from './machine.js'
import { newest, stepsAfter } from './newest.js'
import { rowsIn } from './rows.js'
import { Saving } from './saving.js'
import { keepVerifier } from './verifier.js'

const NOTHING = new Uint8Array()

export interface Directory {
  readonly bytes: Uint8Array
  /** undefined in a keyless database */
  readonly handle: DirectoryHandle | undefined
}

export class Draft {
  readonly #machine: Machine
  /** its own: the machine may fall back to memory meanwhile */
  #store: StateStore
  readonly #scheme: StatefulScheme
  readonly #preparation: Preparation
  /** its preparation was consumed or freed */
  finished = false
  #agreed: Agreed
  #record: HintRecord
  #directory: Directory
  /** a download has begun at this epoch */
  #begun: boolean
  /** updates applied to what is stored; undefined: nothing is stored */
  #version: number | undefined
  /** whether it was registered with its fences */
  #registered: boolean
  #handedOver = false
  /** to be called when it is freed: its rows belong to a hint by then, or may be removed */
  readonly #letGo: () => void

  constructor(
    machine: Machine,
    scheme: StatefulScheme,
    preparation: Preparation,
    { agreed, record, directory }: { agreed: Agreed; record: HintRecord; directory: Directory },
    {
      version,
      begun = false,
      letGo = () => {},
    }: {
      readonly version?: number
      readonly begun?: boolean
      readonly letGo?: () => void
    },
  ) {
    this.#machine = machine
    this.#store = machine.store
    this.#scheme = scheme
    this.#preparation = preparation
    this.#agreed = agreed
    this.#record = record
    this.#directory = directory
    this.#begun = begun
    this.#letGo = letGo
    this.#version = version
    this.#registered = version !== undefined
  }

  /** of the epoch it is at */
  get manifest(): Manifest {
    return this.#agreed.manifest
  }

  /** Stores it for the first time, after registering it with its fences (S8). */
  async begin(replaces: Uint8Array | undefined, signal: AbortSignal): Promise<void> {
    await this.#register(signal)
    const directory = this.#store.durable ? this.#directory.bytes : NOTHING
    const { bytes: manifest, signature } = this.#agreed
    const record = { ...this.#record, manifest, ...(signature && { signature }) }
    await this.#store.begin(record, await this.#partial(), directory, replaces, this.#preparation.rows)
    this.#record = record
    this.#version = 0
    await this.#confirm()
  }

  /**
   * Confirms the hint at its fences: they forget, and then refuse, what was registered and not confirmed soon. A download
   * may rest for a night, and a new hint for days. A failure is ignored: the first lookup confirms it too.
   */
  async #confirm(): Promise<void> {
    const { hintId } = this.#record
    const fences = knowingFences(this.#scheme, this.#record, this.#machine.fences)
    if (!this.#store.durable && this.#fences.length === 1) return
    const { databaseId } = this.#agreed.manifest
    const claim = { databaseId, hintId, version: claimVersion(0, this.#agreed.manifest), requestHash: NO_REQUEST }
    const confirmed = fences.map(link => new Fence(link).confirm(claim).catch(() => {}))
    if (confirmed.length > 0) await Promise.race(confirmed)
  }

  get #fences(): Links {
    return fenceLinks(this.#scheme, this.#record, this.#machine.fences)
  }

  /** Removes what is stored of it. Throws StateMovedError if another tab has gone on with it, or has begun anew. */
  async discard(): Promise<void> {
    const head = await this.#store.read()
    const { hintId, manifest } = this.#record
    const same = head?.stage === 'partial' && equalBytes(head.record.hintId, hintId)
    if (!same || !equalBytes(head.record.manifest, manifest)) {
      throw new StateMovedError('another tab has moved the state on')
    }
    await this.#store.discard(hintId)
  }

  async #register(signal: AbortSignal): Promise<void> {
    if (this.#registered) return
    const { databaseId } = this.#agreed.manifest
    const { announce, rollback } = this.#machine.parts
    const hint = { databaseId, hintId: this.#record.hintId }
    const fences = this.#fences
    const work = (link: Link, signal: AbortSignal) => register(link, hint, signal)
    const enough = rollback === 'strict' ? fences.length : 1
    const outcomes = fences.length > 0 ? await askAll(fences, { enough, once: true }, signal, work) : []
    for (const [i, outcome = 'away'] of outcomes.entries()) {
      const { name } = fences[i]!.server
      if (outcome !== 'registered' && rollback === 'strict') {
        const instead = "choose servers that keep one, or open without rollback: 'strict'"
        throw new UnsupportedError('fence', `${name} keeps no rollback fence, or it is full; ${instead}`)
      }
      if (outcome === 'registered') this.#record = { ...this.#record, fenced: [...this.#record.fenced, name] }
      else announce({ type: 'unfenced', server: name, reason: outcome })
    }
    this.#registered = true
  }

  /** Fetches all that is missing, and follows the servers if they move on meanwhile. */
  async fetch(caller: Caller, gently: boolean): Promise<void> {
    const { downloads, parts } = this.#machine
    const { progress, signal } = caller
    for (;;) {
      if (!this.#begun) {
        expectDownload(this.#machine, this.#scheme, this.#agreed.manifest, caller)
        progress.add(this.#directory.bytes.length)
      }
      this.#begun = true
      progress.phase('partitions')
      try {
        const parties = partiesOf(this.#record, downloads)
        const received = (bytes: number) => progress.add(bytes)
        const rows = rowsIn(this.#store, this.#preparation.id)
        const sources = {
          parties,
          servers: downloads,
          stats: parts.stats,
          gently,
          received,
          save: this.#saver(),
          held: (q: number) => heldPartition(this.#machine, caller, this.#agreed.manifest, q),
          rows,
        }
        await this.#preparation.fetch(sources, signal)
        signal.throwIfAborted()
        return
      } catch (error) {
        // No server had it, perhaps because they are at another epoch now.
        if (!(error instanceof ServerError) || signal.aborted) throw error
        if (!(await this.follow(signal))) throw error
        this.#begun = false
      }
    }
  }

  /** Brings the draft to the newest epoch. Returns whether there was a newer one. Throws OutdatedError. */
  async follow(signal: AbortSignal): Promise<boolean> {
    const { core } = this.#machine.parts
    const base = baseOf(this.#preparation, this.#agreed)
    const { steps } = await stepsAfter(this.#machine, this.#scheme, base, signal)
    for (const step of steps) {
      const foreseen = this.#preparation.foresee?.(step)
      if (foreseen !== undefined) await foreseen
      const followed = { manifest: this.#agreed.manifest, directory: this.#directory.handle }
      const [, handle] = applied(core, followed, step, after =>
        withLayout(core, followed.manifest, before => this.#preparation.update(step, before, after)),
      )
      this.#agreed = step
      if (handle !== undefined) {
        release(core, this.#directory.handle)
        this.#directory = { bytes: inCore(core, () => handle.encode()), handle }
      }
      await this.#preparation.settle?.()
      if (this.#version === undefined) continue
      const directory = this.#store.durable ? this.#directory.bytes : NOTHING
      const epoch = { manifest: step.bytes, signature: step.signature }
      const next = { ...epoch, partial: await this.#partial(), directory }
      await this.#store.updatePartial(this.#record.hintId, this.#version, next)
      this.#record = { ...this.#record, ...epoch }
      this.#version++
    }
    return steps.length > 0
  }

  /** Saves the draft during the download. A save that fails is left out: whether the state fits is seen when it is whole. */
  #saver(): () => Promise<void> {
    const version = this.#version
    if (!this.#store.durable || version === undefined) return async () => {}
    const bytes = partitionBytes(this.#agreed.manifest)
    const saving = new Saving(this.#machine.parts.environment.clock, async () => {
      const partial = await this.#partial()
      await this.#store.putPartial(this.#record.hintId, version, partial).catch((error: unknown) => {
        if (!(error instanceof StoreFailure)) throw error
      })
      return partial.length
    })
    return () => saving.more(bytes)
  }

  /** Makes the finished hint and stores it as whole. */
  async complete(): Promise<Hint> {
    const { core } = this.#machine.parts
    this.finished = true // consumed, even if it fails
    const version = this.#version ?? 0
    const state = this.#preparation.finish(version)
    try {
      const { manifest, bytes } = this.#agreed
      const record = this.#record
      const checkpoint = this.#store.durable ? await state.checkpoint(bindingOf(core, bytes)) : NOTHING
      await this.#storeWhole(version, checkpoint, state)
      const { handle: directory } = this.#directory
      const hint = new Hint({
        core,
        scheme: this.#scheme,
        state,
        record,
        manifest,
        directory,
        checkpointVersion: version,
      })
      this.#handedOver = true
      await keepVerifier(this.#store, hint)
      return hint
    } catch (error) {
      state.free()
      throw error
    }
  }

  /** Stores the finished hint. If the store fails twice, it moves to memory where the app allows that. */
  async #storeWhole(version: number, checkpoint: Uint8Array, { rows }: SchemeState): Promise<void> {
    for (;;) {
      try {
        await this.#store.complete(this.#record.hintId, version, checkpoint, rows)
        this.#machine.noteSuccess()
        return
      } catch (error) {
        const machine = this.#machine
        if (this.#store !== machine.store || !machine.noteFailure(error) || machine.failsForGood) throw error
        if (!machine.fallsBack) continue
        if (rows !== undefined && rows.length > 0) throw error
        return await this.#moveToMemory(version)
      }
    }
  }

  /**
   * Takes the half-made hint out of the store, and puts it into memory. It must not live twice: this is one write, on the disk
   * before memory is used, and refused if another tab has finished the hint or taken it further. With a publisher's key its
   * head stays, which has the newest epoch seen.
   */
  async #moveToMemory(version: number): Promise<void> {
    const machine = this.#machine
    const { hintId, manifest, signature } = this.#record
    const nothing = { manifest, signature, partial: NOTHING, directory: NOTHING }
    await this.#store.updatePartial(hintId, version, nothing)
    if (machine.parts.signing === undefined) await this.#store.discard(hintId).catch(() => {})
    await machine.fallBack()
    this.#store = machine.store
    await this.#store.begin(this.#record, NOTHING, NOTHING, undefined)
    for (let v = 0; v < version; v++) await this.#store.updatePartial(hintId, v, nothing)
    await this.#store.complete(hintId, version, NOTHING)
  }

  /** Frees what has not become part of a hint. */
  free(): void {
    const { rows = [], id } = this.#preparation
    // Else a server that withholds the end of every download could fill the disk.
    if (!this.#handedOver && rows.length > 0) this.#store.sweepRows(id).catch(() => {})
    if (!this.finished) this.#preparation.free()
    if (!this.#handedOver) release(this.#machine.parts.core, this.#directory.handle)
    this.#letGo()
    this.finished = true
    this.#handedOver = true
  }

  async #partial(): Promise<Uint8Array> {
    const { core } = this.#machine.parts
    if (!this.#store.durable) return NOTHING
    return await this.#preparation.partial(bindingOf(core, this.#agreed.bytes))
  }
}

/**
 * A new hint in place of the one whose id is `replaces`. It is stored from its beginning on. Throws OutdatedError, with
 * nothing stored, if no update leads on from the epoch at which its download began.
 */
export async function begin(machine: Machine, replaces: Uint8Array | undefined, caller: Caller): Promise<Hint> {
  const draft = await newDraft(machine, caller)
  try {
    await draft.begin(replaces, caller.signal)
    try {
      await draft.fetch(caller, false)
    } catch (error) {
      if (!(error instanceof OutdatedError)) throw error
      // With a publisher's key it stays until the next is begun in its place: it holds the newest epoch seen.
      if (machine.parts.signing !== undefined) throw new StateMovedError('the half-made hint is outdated')
      await draft.discard()
      throw error
    }
    return await draft.complete()
  } finally {
    draft.free()
  }
}

/**
 * A draft at the newest epoch whose directory could be had, with nothing else downloaded. `letGo` is called when the draft
 * is freed, or if none could be made.
 */
export async function newDraft(machine: Machine, caller: Caller, letGo = () => {}): Promise<Draft> {
  try {
    return await drafted(machine, caller, letGo)
  } catch (error) {
    letGo()
    throw error
  }
}

async function drafted(machine: Machine, caller: Caller, letGo: () => void): Promise<Draft> {
  const { core, environment, servers, stats } = machine.parts
  const { progress, signal } = caller
  let agreed = await newest(machine, caller)
  if (agreed.manifest.shards !== undefined) {
    throw new UnsupportedError('offer', "mode: expected a database on one machine, got a sharded one; use 'instant'")
  }
  await assertMayDownload(machine, machine.schemeFor(agreed.manifest), agreed.manifest, caller)
  let directory: Directory
  for (;;) {
    const { manifest } = agreed
    expectDownload(machine, machine.schemeFor(manifest), manifest, caller)
    await environment.pause()
    if (manifest.keyed) progress.phase('directory')
    try {
      const sources = { servers: machine.downloads, stats, received: (bytes: number) => progress.add(bytes) }
      directory = await downloadDirectory({ core, environment }, manifest, sources, signal)
      break
    } catch (error) {
      if (!(error instanceof ServerError) || signal.aborted) throw error
      const now = await newest(machine, caller)
      if (equalBytes(now.bytes, agreed.bytes)) throw error
      agreed = now
    }
  }
  let preparation: Preparation | undefined
  try {
    const { manifest, bytes } = agreed
    const scheme = machine.schemeFor(manifest)
    await environment.pause()
    preparation = await scheme.prepare(machine.context, manifest)
    const record = drawRecord(scheme, preparation.id, bytes, servers, environment.random)
    const parts = { agreed, record, directory }
    return new Draft(machine, scheme, preparation, parts, { begun: true, letGo })
  } catch (error) {
    preparation?.free()
    release(core, directory.handle)
    throw error
  }
}

/** Throws UnsupportedError where the app has a say over downloads and says no. */
export async function assertMayDownload(
  machine: Machine,
  scheme: StatefulScheme,
  manifest: Manifest,
  { demanded, signal }: Caller,
): Promise<void> {
  if (demanded !== true) await machine.parts.mayDownload?.(scheme.name, manifest, signal)
}

function expectDownload(machine: Machine, scheme: StatefulScheme, manifest: Manifest, { progress }: Caller): void {
  const { core, options } = machine.parts
  const bytes = scheme.prepareBytes?.(core, manifest) ?? scheme.costs(core, manifest, options).prepareBytes
  progress.expect(manifest.directoryBytes + bytes)
}
