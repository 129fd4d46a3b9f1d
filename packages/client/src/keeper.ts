// Keeps the hint in memory and the state in the store in step. The store decides: every intent names the version this
// tab believes the state to be at, and is refused if another tab, or another life of this page, has moved it on. Then
// nothing was sent, and this tab follows (catch-up.ts) or reads everything anew (recovery.ts). The same after any
// failure that leaves open what the store holds. When the servers have moved on, both follow (sync.ts, advance.ts).

import { equalBytes, type FenceClaim, type FenceVerdict, type Manifest } from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import { advance } from './advance.js'
import { catchUp, isOf, RolledBackError } from './catch-up.js'
import { Checkpoints } from './checkpoints.js'
import { ROUNDS, STORE_FAILURES } from './constants.js'
import { inCore } from './core.js'
import type { Environment } from './environment.js'
import { CondemnedError, ProtocolError, StorageError, TamperedError, UnsupportedError } from './errors.js'
import type { OnEvent, StorageKind } from './events.js'
import { Fence, type RollbackPreference } from './fence.js'
import { belongsTo, type Hint, refreshLink } from './hint.js'
import { finishBatch, hasTurned, isPending, type Journal } from './lookup.js'
import { type Agreed, agree, readManifest } from './manifest.js'
import type { ProofsPreference } from './proofs.js'
import type { Publisher } from './publisher.js'
import { begin, type Draft, install, prepare, reopen, resume, type Surroundings, type Watch } from './recovery.js'
import { identityOf, type ServerPair } from './servers.js'
import type { StatsKeeper } from './stats.js'
import { isMoved, type OpenedStore, openInMemory, type StoragePreference, StoreFailure, watched } from './storage.js'
import { type StateHead, StateMovedError, type StateStore, StateUnreadableError } from './store/store.js'
import { type Base, OutdatedError, type Step, stepsAfter } from './sync.js'
import { type Link, linksOf } from './transport.js'

export interface Parts {
  readonly core: Core
  readonly environment: Environment
  readonly servers: ServerPair
  readonly preference: StoragePreference
  readonly publisher: Publisher | undefined
  readonly rollback: RollbackPreference
  readonly proofs: ProofsPreference
  readonly stats: StatsKeeper
  readonly announce: OnEvent
}

/** What the answers to a batch said. */
export interface Finished {
  /** count·ℓ bytes in query order */
  readonly records: Uint8Array
  /** the lists of updates that came between the query and its answers */
  readonly lists: readonly Uint8Array[]
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
  readonly #fences: readonly [Link, Link]
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
  /** of the newest epoch this map has been at */
  #manifest: Manifest | undefined
  /** canonical bytes of the manifest both servers have shown last, signed if that is asked */
  #shown: Uint8Array | undefined
  #fence: { readonly hintId: Uint8Array; readonly fence: Fence } | undefined
  /** the storing of the last effect */
  #settling: Promise<void> = Promise.resolve()
  /** of the store, in a row */
  #failures = 0
  #storage: StorageKind

  constructor(parts: Parts, opened: OpenedStore) {
    this.#parts = parts
    this.#downloads = linksOf(parts.servers, parts.environment, parts.stats.offline)
    this.#lookups = linksOf(parts.servers, parts.environment, parts.stats.online)
    this.#fences = linksOf(parts.servers, parts.environment, parts.stats.fence)
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
   * Sends, verifies and applies the hint's pending batch, at the next epoch if the servers have turned meanwhile. `own`:
   * it was made just now, and has never been stored. Throws StateMovedError if another tab was faster: nothing was sent,
   * and `current` tells how to go on. Throws OutdatedError if the servers no longer answer this hint.
   */
  async finish(hint: Hint, own = false): Promise<Finished> {
    const { hintId } = hint.record
    const lists: Uint8Array[] = []
    const journal: Journal = {
      intend: (version, pending) => this.#intend(hint, version, pending, own && lists.length === 0),
      admit: () => this.#admit(hint),
      judged: (claim, verdict) => this.#judged(hint, claim, verdict),
      apply: (version, effect) => this.#apply(hint, version, effect),
      lose: () => this.#lose(hint),
      condemn: culprit => this.#condemn(hintId, culprit),
    }
    for (;;) {
      try {
        const exchange = { hint, links: this.#lookups, journal, stats: this.#parts.stats }
        return { records: await finishBatch(exchange), lists }
      } catch (error) {
        // Only now that both answers are in, or their time is over (P6).
        if (error instanceof TamperedError) this.#parts.announce({ type: 'condemned', server: error.server })
        if (!hasTurned(error, hint.manifest)) throw error
        // Never called off: when a server turns has nothing to do with what is asked, and neither has this.
        const steps = await this.stepsAfter(hint.base, new AbortController().signal)
        if (steps.length === 0) throw error
        for (const step of steps) {
          await this.#advance(hint, step)
          lists.push(step.list)
        }
      }
    }
  }

  /** Whether the hint in memory is at what the servers have shown last, in this life of the page. */
  get fresh(): boolean {
    return this.#hint !== undefined && this.#isShown(this.#hint.base)
  }

  /** The epochs after `base` that both servers have, as far as they are signed, if that is asked. Touches no state. */
  async stepsAfter(base: Base, signal: AbortSignal): Promise<Step[]> {
    const { core, publisher, stats } = this.#parts
    const steps = await stepsAfter(base, { core, links: this.#downloads, publisher, stats }, signal)
    if (steps.length === 0 && !this.#isShown(base)) await publisher?.check(base, this.#downloads, signal)
    this.#shown = steps.at(-1)?.bytes ?? base.bytes
    return steps
  }

  /** Brings the hint through those of `steps` that are still ahead of it. */
  async apply(steps: readonly Step[], watch: Watch): Promise<void> {
    for (let round = 1; round <= ROUNDS; round++) {
      const hint = this.live ?? (await this.current(watch))
      const next = steps.find(({ manifest }) => manifest.epoch > hint.manifest.epoch)
      if (next === undefined) return
      try {
        for (const step of steps.slice(steps.indexOf(next))) {
          if (step.manifest.epoch !== hint.manifest.epoch + 1) return
          await this.#advance(hint, step)
        }
      } catch (error) {
        if (!isMoved(error)) throw error
      }
    }
    throw restless()
  }

  /** Follows what another tab has done. */
  async follow(watch: Watch): Promise<Hint> {
    if (this.durable) this.#stale = true
    return await this.current(watch)
  }

  #isShown({ bytes }: Agreed): boolean {
    return this.#shown !== undefined && equalBytes(this.#shown, bytes)
  }

  /**
   * Throws SignatureError if the publisher's word for this epoch has run out, and there is no newer one; or if there is
   * none, because another tab that does not ask for it has taken the state there.
   */
  async assertVouched(hint: Hint, watch: Watch): Promise<void> {
    const { publisher } = this.#parts
    if (publisher === undefined) return
    if (this.#isShown(hint.base) && !publisher.hasExpired(hint.manifest)) return
    await this.apply(await this.stepsAfter(hint.base, watch.signal), watch)
    if (this.#manifest !== undefined) publisher.checkExpiry(this.#manifest)
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
    await this.install(await this.prepare(watch), watch)
  }

  /** Downloads a new hint, and leaves everything as it is. It is to be installed, or freed. */
  async prepare(watch: Watch): Promise<Draft> {
    for (;;) {
      try {
        return await prepare(this.#around, watch)
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error
      }
    }
  }

  /**
   * Puts a hint that was prepared in place of whatever there is. `unlessOvertaken`: but not of one as new, which another
   * tab has put there meanwhile; then that one is used.
   */
  async install(draft: Draft, watch: Watch, unlessOvertaken = false): Promise<void> {
    // Whatever happens from here on, the store is asked before the old hint is used again; in memory it has nothing to say.
    const replaced = async () => {
      if (this.durable) this.#stale = true
      const head = await this.#readHead(false)
      if (unlessOvertaken && isAsNew(head, draft.manifest)) throw new StateMovedError('another tab has begun anew')
      return head?.record.hintId
    }
    try {
      await this.#settling
      watch.progress.phase('ready') // all that can be called off is done
      watch.signal.throwIfAborted()
      const hint = await install(draft, replaced, watch.signal)
      this.#retire()
      this.#condemned = undefined
      this.#arrived(hint.manifest)
      this.#adopt(hint, 0)
      this.#tellTabs()
    } catch (error) {
      draft.free()
      if (error instanceof StoreFailure) this.#failures++
      // Another tab has begun anew even later: its hint is as new as ours would have been.
      if (!isMoved(error)) throw error
      await this.current(watch)
    }
  }

  /** Discards the hint in memory, which no update leads on from, and begins anew, unless another tab has already. */
  async startOver(reason: OutdatedError['reason'], watch: Watch): Promise<void> {
    await this.#settling
    const outdated = this.#hint?.record
    this.#retire()
    try {
      const head = await this.#readHead(true)
      const same = outdated !== undefined && isOf(head, outdated.hintId) && head?.condemned === undefined
      if (same && head !== undefined && equalBytes(head.record.manifest, outdated.manifest)) {
        await this.#discard(head, reason, watch)
      }
    } catch (error) {
      if (!isMoved(error)) throw error
    }
    await this.current(watch)
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
    const newest = (watch: Watch) => this.#newest(watch)
    return { ...this.#parts, links: this.#downloads, fences: this.#fences, store: this.#store, newest }
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
        this.#arrived(hint.manifest)
        return hint
      }
      this.#retire()
      if (head === undefined) this.#parts.announce({ type: 'discarded', reason: 'missing' })
    }
    const recovered = await (head === undefined ? this.#begin(undefined, watch) : this.#recover(head, watch))
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
    const beginInstead = async (reason: Discarding) =>
      await this.#begin(await this.#discard(head, reason, watch), watch)
    if (!belongsTo(record, servers)) return await beginInstead('servers')
    this.#manifest ??= readManifest(record.manifest)
    if (condemned !== undefined) {
      const { culprit } = condemned
      this.#condemned = { hintId: record.hintId, culprit, stored: true }
      announce({ type: 'condemned', server: culprit })
      throw new CondemnedError(culprit)
    }
    // What is not durable was never meant to be read back.
    if (!this.durable) return await beginInstead('unreadable')

    const pending = head.pending !== undefined
    try {
      if (head.stage === 'partial') {
        const readable = () => announce({ type: 'resumed', what: 'download', pending })
        return await resume(this.#around, head, watch, readable)
      }
      const hint = await reopen(this.#around, head)
      if (!this.#isWished(hint)) {
        hint.free()
        return await beginInstead('proofs')
      }
      announce({ type: 'resumed', what: 'hint', pending })
      return hint
    } catch (error) {
      const outdated = error instanceof OutdatedError
      if (!outdated && !(error instanceof StateUnreadableError)) throw error
      await this.#assertUnmoved(head)
      return await beginInstead(outdated ? error.reason : 'unreadable')
    }
  }

  /** A new life, and yet another if the database is replaced or laid out anew while it is downloaded. */
  async #begin(replaces: Uint8Array | undefined, watch: Watch): Promise<Hint> {
    for (let replaced = replaces; ; replaced = undefined) {
      try {
        return await begin(this.#around, replaced, watch)
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error
        this.#parts.announce({ type: 'discarded', reason: error.reason })
      }
    }
  }

  /** Whether a hint takes the kind of proof that the app insists on. */
  #isWished({ proofs }: Pick<Hint, 'proofs'>): boolean {
    const { proofs: wish } = this.#parts
    return wish === 'auto' || wish === proofs
  }

  /** What was read in two steps, and does not fit together, may only have been moved on in between. */
  async #assertUnmoved({ record, version, stage }: StateHead): Promise<void> {
    const head = await this.#readHead(false)
    const same = isOf(head, record.hintId) && head?.version === version && head.stage === stage
    if (!same) throw new StateMovedError('another tab has moved the state on')
  }

  #adopt(hint: Hint, journalBytes: number): void {
    this.#hint = hint
    this.#stale = false
    this.#manifest = hint.manifest
    this.#checkpoints.note(journalBytes)
  }

  /** Brings the hint in memory and in the store one epoch further. */
  async #advance(hint: Hint, step: Step): Promise<void> {
    await this.#settling
    try {
      this.#checkpoints.note(await advance(hint, step, this.#store, this.#parts.environment))
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      if (error instanceof StoreFailure) this.#failures++
      this.#lose(hint)
      throw error
    }
    this.#arrived(hint.manifest)
    this.#tellTabs()
  }

  /** The hint is at this epoch now. */
  #arrived(manifest: Manifest): void {
    const { generation, epoch } = manifest
    if (epoch !== this.#manifest?.epoch) this.#parts.announce({ type: 'updated', generation, epoch })
    this.#manifest = manifest
  }

  #tellTabs(): void {
    if (this.durable) this.#parts.environment.tabs.tell(tabsName(this.#parts.servers))
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
  async #discard(head: StateHead, reason: Discarding, watch: Watch): Promise<Uint8Array | undefined> {
    const { hintId } = head.record
    // What this map has seen must not be forgotten because servers show something older, or another's: first there has
    // to be something that its publisher vouches for, to take its place.
    if (this.#parts.publisher !== undefined && this.#manifest !== undefined) await this.#newest(watch)
    // A condemned state stays until another is begun in its place: that it was condemned must not be forgotten.
    if (head.condemned === undefined) await this.#store.discard(hintId)
    this.#parts.announce({ type: 'discarded', reason })
    return head.condemned === undefined ? undefined : hintId
  }

  /** What both servers agree on, now, and the publisher vouches for, if that is asked. */
  async #newest({ progress, signal }: Watch): Promise<Agreed> {
    const { publisher } = this.#parts
    progress.phase('manifest')
    const agreed = await agree(this.#downloads, signal)
    await publisher?.check(agreed, this.#downloads, signal)
    if (this.#manifest !== undefined) publisher?.checkSuccession(this.#manifest, agreed.manifest)
    this.#shown = agreed.bytes
    return agreed
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
   * S8: the refresh server hears of a batch before any vector leaves that another copy of this state could contradict.
   * While it is wide awake, and unless strictness is asked for, a hint has it hear in the same request; it is not taken
   * further before it has been heard.
   */
  async #admit(hint: Hint): Promise<FenceClaim | undefined> {
    const fence = this.#fenceOf(hint)
    if (fence === undefined) return undefined
    const claim = claimOf(hint)
    const ahead = !fence.awake || this.#parts.rollback === 'strict'
    if (ahead && !fence.has(claim)) await this.#confirm(hint, fence, claim)
    return claim
  }

  async #judged(hint: Hint, claim: FenceClaim, verdict: FenceVerdict): Promise<void> {
    if (verdict === 'granted') {
      this.#fenceOf(hint)?.granted(claim)
      return
    }
    await this.#refused(hint).catch(error => {
      // Another tab has begun anew, and the batch has left: its answers are right, and the store will refuse its effect.
      if (!isMoved(error)) throw error
    })
  }

  /** Has the refresh server confirm how far this hint has come, before it is first used in this life of the page. */
  async confirm(hint: Hint): Promise<void> {
    const fence = this.#fenceOf(hint)
    if (fence !== undefined && !fence.awake) await this.#confirm(hint, fence, claimOf(hint))
  }

  async #confirm(hint: Hint, fence: Fence, claim: FenceClaim): Promise<void> {
    if ((await fence.confirm(claim)) !== 'granted') await this.#refused(hint)
  }

  /** The fence has refused this hint's claim. Condemns it, unless this tab is merely late. */
  async #refused(hint: Hint): Promise<void> {
    const { version } = hint
    const pending = isPending(hint)
    if (this.durable) {
      // Another tab may have gone further on this store, or have begun anew: then this one is merely late.
      const head = await this.#readHead(false)
      const here = isOf(head, hint.record.hintId) && head?.condemned === undefined
      if (!here || head?.version !== version || (head.pending !== undefined) !== pending) {
        this.#stale = true
        // It has finished this very batch, and had it granted: the same bytes again show nothing new, and this call need
        // not make another query (P4).
        if (here && pending && head !== undefined && head.version > version) return
        throw new StateMovedError('another tab has gone further')
      }
    }
    await this.condemn(hint)
    throw new CondemnedError(undefined)
  }

  /** undefined: this hint's refresh server had none when it was made. Throws UnsupportedError if there has to be one. */
  #fenceOf({ record }: Hint): Fence | undefined {
    if (!record.fenced) {
      if (this.#parts.rollback !== 'strict') return undefined
      const instead = "open() without rollback: 'strict' and call reset(), or choose servers that keep one"
      throw new UnsupportedError(`this map's hint was made without a rollback fence; ${instead}`)
    }
    if (this.#fence === undefined || !equalBytes(this.#fence.hintId, record.hintId)) {
      this.#fence = { hintId: record.hintId, fence: new Fence(refreshLink(record, this.#fences)) }
    }
    return this.#fence.fence
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
    // By the time it is done, another hint may have taken this one's place, and memory the store's.
    const store = this.#store
    try {
      const { journalBytes } = await store.commit(hint.record.hintId, version, effect)
      if (this.#store !== store) return
      this.#checkpoints.note(journalBytes)
      this.#failures = 0
    } catch (error) {
      if (error instanceof StoreFailure && this.#store === store) this.#failures++
      if (this.#hint === hint) this.#lose(hint)
      if (!store.durable && error instanceof StoreFailure) throw error
    }
  }

  /** Memory no longer agrees with the store. */
  #lose(hint: Hint): void {
    if (this.durable) this.#retire()
    else hint.lose()
  }

  /** Whoever condemns first names the culprit, here as in the store. */
  async #condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    if (this.#condemned !== undefined && equalBytes(this.#condemned.hintId, hintId)) return
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

/** Whether what is stored is a hint that can be used, of this very database, and no older than that. */
function isAsNew(head: StateHead | undefined, { databaseId, epoch }: Manifest): boolean {
  if (head?.stage !== 'whole' || head.condemned !== undefined) return false
  const stored = readManifest(head.record.manifest)
  return stored !== undefined && equalBytes(stored.databaseId, databaseId) && stored.epoch >= epoch
}

type Discarding = 'unreadable' | 'servers' | 'proofs' | OutdatedError['reason']

/** Under which the tabs of one identity find each other. */
export function tabsName(servers: ServerPair): string {
  return `pirouette tabs ${identityOf(servers).join(' ')}`
}

/**
 * What a fence is to confirm. Its version counts lookups alone: an update raises the hint's version and its epoch alike.
 * If it counted updates, a copy that is behind would catch up with the fence just by following the database.
 */
function claimOf(hint: Hint): FenceClaim {
  const { core, client, record, manifest } = hint
  const requestHash = isPending(hint) ? inCore(core, () => client.fenceHash()) : new Uint8Array(32)
  const version = hint.version + 2 ** 32 - manifest.epoch
  return { databaseId: manifest.databaseId, hintId: record.hintId, version, requestHash }
}

/** What an operation fails with that has started over too often. */
export function restless(): StorageError {
  return new StorageError('the store refuses every change, or other tabs keep beginning anew; try again')
}
