// Keeps the hint in memory and the state in the store in step. The store decides: every intent names the version this
// tab believes the state to be at, and is refused if another tab, or another life of this page, has moved it on. Then
// nothing was sent, and this tab follows (catch-up.ts) or reads everything anew (recovery.ts). The same after any
// failure that leaves open what the store holds.

import { equalBytes, type Manifest } from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import { catchUp, isOf, RolledBackError } from './catch-up.js'
import { Checkpoints } from './checkpoints.js'
import { ROUNDS, STORE_FAILURES } from './constants.js'
import { inCore } from './core.js'
import type { Environment } from './environment.js'
import { CondemnedError, StorageError, TamperedError } from './errors.js'
import type { OnEvent, StorageKind } from './events.js'
import { belongsTo, type Hint } from './hint.js'
import { finishBatch, isPending, type Journal } from './lookup.js'
import { type Agreed, agree, readManifest } from './manifest.js'
import { begin, reopen, replace, resume, type Surroundings, type Watch } from './recovery.js'
import { identityOf, type ServerPair } from './servers.js'
import type { StatsKeeper } from './stats.js'
import { isMoved, type OpenedStore, openInMemory, type StoragePreference, StoreFailure, watched } from './storage.js'
import { type StateHead, StateMovedError, type StateStore, StateUnreadableError } from './store/store.js'
import { type Link, linksOf } from './transport.js'

export interface Parts {
  readonly core: Core
  readonly environment: Environment
  readonly servers: ServerPair
  readonly preference: StoragePreference
  readonly stats: StatsKeeper
  readonly announce: OnEvent
}

interface Condemned {
  readonly hintId: Uint8Array
  readonly culprit: string | undefined
  /** the store knows */
  stored: boolean
}

export class Keeper {
  readonly #parts: Parts
  readonly #downloads: readonly [Link, Link]
  readonly #lookups: readonly [Link, Link]
  readonly #checkpoints = new Checkpoints()
  #opened: OpenedStore
  #store: StateStore
  /** the hint in memory, possibly behind the store */
  #hint: Hint | undefined
  /** the store has said, or may say, something else than memory */
  #stale = false
  #condemned: Condemned | undefined
  /** hints no longer used, to be freed when nobody reads what they have answered */
  readonly #retired: Hint[] = []
  /** what both servers last agreed on */
  #agreed: Agreed | undefined
  #manifest: Manifest | undefined
  /** the storing of the last effect */
  #settling: Promise<void> = Promise.resolve()
  /** of the store, in a row */
  #failures = 0
  #storage: StorageKind

  constructor(parts: Parts, opened: OpenedStore) {
    this.#parts = parts
    this.#downloads = linksOf(parts.servers, parts.environment, parts.stats.offline)
    this.#lookups = linksOf(parts.servers, parts.environment, parts.stats.online)
    this.#opened = opened
    this.#store = watched(opened.store)
    this.#storage = opened.storage
  }

  get storage(): StorageKind {
    return this.#storage
  }

  /** Whether other tabs, or later lives of this page, may share the state. */
  get durable(): boolean {
    return this.#store.durable
  }

  /** The manifest of the newest hint known. */
  get manifest(): Manifest | undefined {
    return this.#manifest
  }

  /** The hint, unless the store has to be asked first. */
  get live(): Hint | undefined {
    if (this.#stale || this.#condemned !== undefined) return undefined
    this.#hint?.assertUsable()
    return this.#hint
  }

  /** The hint in memory, whether it may be used or not. */
  get known(): Hint | undefined {
    return this.#hint
  }

  /**
   * The hint, in step with the store: followed, read anew, or made anew where there is none. A batch that was left
   * pending is pending in it. Throws CondemnedError, StorageError, and whatever the offline phase throws.
   */
  async current(watch: Watch): Promise<Hint> {
    for (let round = 1; round <= ROUNDS; round++) {
      watch.signal.throwIfAborted()
      try {
        await this.#fallBackIfFailing()
        await this.#assertNotCondemned()
        return this.live ?? (await this.#follow(watch))
      } catch (error) {
        if (isMoved(error)) continue
        if (!(error instanceof StoreFailure)) throw error
        this.#failures++
        this.#retire()
        if (this.#failures >= STORE_FAILURES && !this.#mayFallBack()) throw error
      }
    }
    throw restless()
  }

  /**
   * Sends, verifies and applies the hint's pending batch. `own`: it was made just now, and has never been stored.
   * Throws StateMovedError if another tab was faster: nothing was sent, and `current` tells how to go on.
   */
  async finish(hint: Hint, own = false): Promise<Uint8Array> {
    const { hintId } = hint.record
    const journal: Journal = {
      intend: (version, pending) => this.#intend(hint, version, pending, own),
      apply: (version, effect) => this.#apply(hint, version, effect),
      lose: () => this.#lose(hint),
      condemn: culprit => this.#condemn(hintId, culprit),
    }
    try {
      return await finishBatch({ hint, links: this.#lookups, journal, stats: this.#parts.stats })
    } catch (error) {
      // Only now that both answers are in, or their time is over (P6).
      if (error instanceof TamperedError) this.#parts.announce({ type: 'condemned', server: error.server })
      throw error
    }
  }

  /** The local state is at fault: nothing of it is used again. */
  async condemn({ record }: Hint): Promise<void> {
    await this.#condemn(record.hintId, undefined)
    this.#parts.announce({ type: 'condemned', server: undefined })
  }

  /** A new hint in place of whatever there is; if it fails, everything is as it was. */
  async replace(watch: Watch): Promise<void> {
    await this.#settling
    await this.#fallBackIfFailing()
    const agreed = await this.#newest(watch)
    // Whatever happens from here on, the store is asked before the old hint is used again.
    const replaced = async () => {
      this.#stale = true
      return (await this.#readHead(false))?.record.hintId
    }
    try {
      const hint = await replace(this.#around, agreed, replaced, watch)
      this.#retire()
      this.#condemned = undefined
      this.#adopt(hint, 0)
    } catch (error) {
      if (error instanceof StoreFailure) this.#failures++
      // Another tab has begun anew even later: its hint is as new as ours would have been.
      if (!isMoved(error)) throw error
      await this.current(watch)
    }
  }

  /** Whether the journal has become too long, and nothing is under way. */
  get checkpointDue(): boolean {
    const hint = this.#stale || this.#condemned ? undefined : this.#hint
    return hint !== undefined && this.durable && this.#checkpoints.isDue(hint) && !isPending(hint)
  }

  async writeCheckpoint(): Promise<void> {
    if (this.checkpointDue) await this.#checkpoints.write(this.#store, this.#hint!)
  }

  /** Asks the platform to keep the state from eviction, if it can be asked. */
  async persist(): Promise<void> {
    const { persist } = this.#opened
    if (this.#storage !== 'best-effort' || persist === undefined) return
    if (!(await persist().catch(() => false)) || this.#storage !== 'best-effort') return
    this.#storage = 'persistent'
    this.#parts.announce({ type: 'storage', storage: 'persistent', reason: 'granted' })
  }

  /** To be called when an operation is over: until then it may still read what a hint has answered. */
  freeRetired(): void {
    for (const hint of this.#retired.splice(0)) hint.free()
  }

  /** Resolves once the effect of the last batch is stored, or is known not to be. */
  settled(): Promise<void> {
    return this.#settling
  }

  /** Overwrites and frees secrets, and lets go of the store. */
  async close(): Promise<void> {
    await this.#settling
    this.#retire()
    this.freeRetired()
    await this.#store.close()
  }

  get #around(): Surroundings {
    const { core, environment, servers, stats } = this.#parts
    return { core, environment, servers, links: this.#downloads, store: this.#store, stats }
  }

  // ---- from the store to memory ------------------------------------------------------------------

  async #follow(watch: Watch): Promise<Hint> {
    await this.#settling
    const head = await this.#readHead(true)
    const hint = this.#hint
    if (hint !== undefined) {
      if (await this.#caughtUp(hint, head)) {
        this.#stale = false
        this.#checkpoints.note(head!.journalBytes)
        return hint
      }
      this.#retire()
      if (head === undefined) this.#parts.announce({ type: 'discarded', reason: 'missing' })
    }
    const recovered = head === undefined ? await this.#begin(undefined, watch) : await this.#recover(head, watch)
    this.#adopt(recovered, isOf(head, recovered.record.hintId) ? head!.journalBytes : 0)
    return recovered
  }

  async #caughtUp(hint: Hint, head: StateHead | undefined): Promise<boolean> {
    if (head === undefined || head.condemned !== undefined) return false
    try {
      return await catchUp(this.#store, hint, head)
    } catch (error) {
      if (error instanceof RolledBackError) {
        await this.condemn(hint)
        throw new CondemnedError(undefined)
      }
      // Perhaps only this tab's memory does not fit: the store is read as a whole.
      if (error instanceof StateUnreadableError) return false
      throw error
    }
  }

  async #recover(head: StateHead, watch: Watch): Promise<Hint> {
    const { servers, announce } = this.#parts
    const { record, condemned } = head
    if (!belongsTo(record, servers)) return await this.#begin(await this.#discard(head, 'servers'), watch)
    if (condemned !== undefined) {
      const { culprit } = condemned
      this.#manifest ??= readManifest(record.manifest)
      this.#condemned = { hintId: record.hintId, culprit, stored: true }
      announce({ type: 'condemned', server: culprit })
      throw new CondemnedError(culprit)
    }
    // What is not durable was never meant to be read back.
    if (!this.durable) return await this.#begin(await this.#discard(head, 'unreadable'), watch)

    const agreed = await this.#agreedOn(record.manifest, watch)
    if (!equalBytes(agreed.bytes, record.manifest)) {
      return await begin(this.#around, agreed, await this.#discard(head, 'manifest'), watch)
    }
    const pending = head.pending !== undefined
    try {
      if (head.stage === 'partial') {
        const readable = () => announce({ type: 'resumed', what: 'download', pending })
        return await resume(this.#around, record, agreed, watch, readable)
      }
      const hint = await reopen(this.#around, head, agreed)
      announce({ type: 'resumed', what: 'hint', pending })
      return hint
    } catch (error) {
      if (!(error instanceof StateUnreadableError)) throw error
      return await this.#begin(await this.#discard(head, 'unreadable'), watch)
    }
  }

  async #begin(replaces: Uint8Array | undefined, watch: Watch): Promise<Hint> {
    return await begin(this.#around, await this.#newest(watch), replaces, watch)
  }

  #adopt(hint: Hint, journalBytes: number): void {
    this.#hint = hint
    this.#stale = false
    this.#manifest = hint.manifest
    this.#checkpoints.note(journalBytes)
  }

  /** The head. An unreadable state is discarded, if that is wanted, and there is none then. */
  async #readHead(discarding: boolean): Promise<StateHead | undefined> {
    try {
      return await this.#store.read()
    } catch (error) {
      if (!(error instanceof StateUnreadableError)) throw error
      if (discarding) {
        await this.#store.discard(undefined)
        this.#parts.announce({ type: 'discarded', reason: 'unreadable' })
        this.#retire()
      }
      return undefined
    }
  }

  /** Makes room for a new hint, which is to replace the result. */
  async #discard(head: StateHead, reason: 'unreadable' | 'manifest' | 'servers'): Promise<Uint8Array | undefined> {
    const { hintId } = head.record
    // A condemned state stays until another is begun in its place: that it was condemned must not be forgotten.
    if (head.condemned === undefined) await this.#store.discard(hintId)
    this.#parts.announce({ type: 'discarded', reason })
    return head.condemned === undefined ? undefined : hintId
  }

  /** What both servers agree on, now. */
  async #newest({ progress, signal }: Watch): Promise<Agreed> {
    progress.phase('manifest')
    this.#agreed = await agree(this.#downloads, signal)
    return this.#agreed
  }

  /** What both servers have agreed on, asked again unless it is this. */
  async #agreedOn(manifest: Uint8Array, watch: Watch): Promise<Agreed> {
    if (this.#agreed !== undefined && equalBytes(this.#agreed.bytes, manifest)) return this.#agreed
    return await this.#newest(watch)
  }

  // ---- from memory to the store ------------------------------------------------------------------

  async #intend(hint: Hint, version: number, pending: Uint8Array, own: boolean): Promise<void> {
    try {
      await this.#store.putPending(hint.record.hintId, version, pending)
    } catch (error) {
      if (!(error instanceof StoreFailure)) {
        // Refused: it was not stored, and will not be sent. A batch that was stored before may be finished by now.
        if (own) inCore(hint.core, () => hint.client.withdraw())
        this.#stale = true
        throw error instanceof StateMovedError ? error : new StateMovedError('the state has to be read anew')
      }
      this.#failures++
      // Stored or not: the store decides, when it can be asked. A batch in memory alone is offered to it again.
      if (this.durable) this.#retire()
      throw error
    }
  }

  /**
   * The answers are verified, so this call's records are right, whatever becomes of the effect; the caller does not
   * wait for it. Until it is stored, the batch is pending in the store, and whoever finds it sends the same bytes. An
   * intent that follows at once is refused unless the effect was stored before it: its version tells.
   */
  async #apply(hint: Hint, version: number, effect: Uint8Array): Promise<void> {
    const storing = this.#storeEffect(hint, version, effect)
    if (!this.durable) return await storing
    this.#settling = storing
  }

  async #storeEffect(hint: Hint, version: number, effect: Uint8Array): Promise<void> {
    try {
      const { journalBytes } = await this.#store.commit(hint.record.hintId, version, effect)
      this.#checkpoints.note(journalBytes)
      this.#failures = 0
    } catch (error) {
      if (error instanceof StoreFailure) this.#failures++
      // Only of this hint: another may have taken its place meanwhile.
      if (this.#hint === hint) this.#lose(hint)
      if (!this.durable && error instanceof StoreFailure) throw error
    }
  }

  /** Memory no longer agrees with the store. */
  #lose(hint: Hint): void {
    if (this.durable) this.#retire()
    else hint.lose()
  }

  async #condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    const condemned = { hintId, culprit, stored: false }
    this.#condemned = condemned
    this.#retire()
    await this.#storeCondemnation(condemned)
  }

  async #storeCondemnation(condemned: Condemned): Promise<void> {
    try {
      await this.#store.condemn(condemned.hintId, condemned.culprit)
      condemned.stored = true
    } catch {
      // This tab keeps to it all the same, and the next call tries again. Until then the batch stays pending, so that
      // a later life of the page repeats it, byte for byte.
    }
  }

  /** S7: condemned stays condemned, until somebody has begun anew. */
  async #assertNotCondemned(): Promise<void> {
    const condemned = this.#condemned
    if (condemned === undefined) return
    if (!condemned.stored) await this.#storeCondemnation(condemned)
    const head = await this.#readHead(false).catch(() => undefined)
    if (head === undefined || isOf(head, condemned.hintId)) throw new CondemnedError(condemned.culprit)
    this.#condemned = undefined
  }

  #mayFallBack(): boolean {
    return this.durable && this.#parts.preference === 'preferred'
  }

  /**
   * A store that has failed too often is left alone, as it is, and state is kept in memory from now on, beginning anew:
   * whatever the store holds stays whole and is never used besides.
   */
  async #fallBackIfFailing(): Promise<void> {
    if (this.#failures < STORE_FAILURES || !this.#mayFallBack()) return
    this.#retire()
    await this.#store.close().catch(() => {})
    this.#opened = await openInMemory(this.#parts.environment, identityOf(this.#parts.servers))
    this.#store = watched(this.#opened.store)
    this.#storage = this.#opened.storage
    this.#failures = 0
    this.#parts.announce({ type: 'storage', storage: 'memory', reason: 'failed' })
  }

  /** The hint in memory is not used again. */
  #retire(): void {
    if (this.#hint !== undefined) this.#retired.push(this.#hint)
    this.#hint = undefined
    this.#stale = false
  }
}

/** What an operation fails with that has started over too often. */
export function restless(): StorageError {
  return new StorageError('the store refuses every change, or other tabs keep beginning anew; try again')
}
