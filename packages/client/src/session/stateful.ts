// A session whose scheme keeps a state. A caller gets its answer as soon as it is verified. The effect is stored after that,
// and the lock is kept until then, so that the next lookup waits for neither.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import type { Core, Mode } from '@keyhush/wasm/client'
import { abortable, scoped } from '../base/abort.js'
import { REPLACED_A_CALL, SLOW_MS } from '../base/constants.js'
import {
  ClosedError,
  CondemnedError,
  ServerError,
  ServersDisagreeError,
  SignatureError,
  TamperedError,
  UnsupportedError,
} from '../base/errors.js'
import type { Condemnation, StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { Admission } from '../lookup/admission.js'
import { answerHeld, Rounds, StatefulLookup } from '../lookup/lookup.js'
import { finishPending } from '../lookup/pending.js'
import type { Question } from '../lookup/question.js'
import { assertAlive, isDead } from '../platform/core.js'
import { whileShown } from '../platform/page.js'
import { sleep } from '../servers/ask.js'
import { hearLooks } from '../servers/events.js'
import { listenTo } from '../servers/folder.js'
import { readManifest } from '../servers/manifests.js'
import { identityOf } from '../servers/parties.js'
import { OutdatedError } from '../servers/path.js'
import type { Stats } from '../servers/stats.js'
import { apply } from '../state/advancing.js'
import { readHead } from '../state/head.js'
import { belongsTo, fenceLinks, type Hint } from '../state/hint.js'
import { type Caller, Machine, type Parts, replacedTooOften, tabsName } from '../state/machine.js'
import { type How, stepsAfter } from '../state/newest.js'
import { replace, startOver } from '../state/replacing.js'
import { current, currentAgain } from '../state/restoring.js'
import { sweepRows } from '../state/sweeping.js'
import { isMoved, type OpenedStore, openStorage } from '../store/storage.js'
import { isRefusal } from './consent.js'
import { followEvents } from './events.js'
import { Queue } from './queue.js'
import { Rebuilding } from './rebuilding.js'
import type { Session } from './session.js'

/** What the store has, and of which epoch. */
export interface Stored {
  readonly stage: 'partial' | 'whole'
  /** undefined: it cannot be read any more */
  readonly manifest: Manifest | undefined
}

/** Where a state of these servers is, or will be. */
export function storeOf(parts: Omit<Parts, 'choose'>): Promise<OpenedStore> {
  const { environment, servers, apart, atLeast, preference, announce } = parts
  return openStorage(environment, identityOf(servers, apart, atLeast), preference, announce)
}

export class StatefulSession implements Session {
  readonly #machine: Machine
  readonly #admission: Admission
  readonly #queue: Queue
  readonly #rebuilding: Rebuilding
  readonly #closing = new AbortController()
  /** aborts after `#closing`, once no lookup is under way */
  readonly #ending = new AbortController()
  #closed: Promise<void> | undefined
  #listening: Promise<void> = Promise.resolve()
  #askedToPersist = false
  /** whether the rows that closed tabs have left were removed */
  #swept = false
  /** lookups that hints had left when their successors were begun last */
  readonly #renewals = new WeakMap<Hint, number>()

  constructor(parts: Parts, opened: OpenedStore) {
    const { environment, servers, apart, atLeast } = parts
    const machine = new Machine(parts, opened)
    this.#machine = machine
    this.#admission = new Admission(machine)
    this.#rebuilding = new Rebuilding(machine, this.#ending.signal)
    const guarded = {
      get durable() {
        return machine.durable
      },
      waitsForLock: (waits: boolean) => {
        parts.stats.waitingForTab += waits ? 1 : -1
      },
      tidy: () => machine.freeRetired(),
      rest: (isWaitedFor: () => boolean) => this.#rest(isWaitedFor),
    }
    const lockName = `keyhush ${identityOf(servers, apart, atLeast).join(' ')}`
    this.#queue = new Queue(environment, lockName, guarded, this.#closing.signal)
  }

  static async withStore(parts: Parts): Promise<StatefulSession> {
    return new StatefulSession(parts, await storeOf(parts))
  }

  get dead(): boolean {
    return isDead(this.#machine.parts.core)
  }

  get manifest(): Manifest | undefined {
    return this.#machine.manifest
  }

  get mode(): Mode | undefined {
    return this.#machine.known?.scheme.name
  }

  get condemned(): Condemnation | undefined {
    const { phase } = this.#machine
    return phase.is === 'condemned' ? { server: phase.culprit } : undefined
  }

  get storage(): StorageKind {
    return this.#machine.storage
  }

  get stats(): Stats {
    const { known, parts } = this.#machine
    const { sizes = {}, lookupsLeft } = known?.state ?? {}
    const fences = known && fenceLinks(known.scheme, known.record, this.#machine.fences)
    const fenced = fences?.length ? fences.every(({ server }) => known?.record.fenced.includes(server.name)) : undefined
    return parts.stats.snapshot({ core: parts.core.kind, fenced, held: sizes, lookupsLeft })
  }

  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    return abortable(this.#ask(question, signal), signal)
  }

  async #ask<T>(question: Question<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#machine.phase.is === 'live') {
      this.#assertOpen()
      signal?.throwIfAborted()
      const held = answerHeld(this.#machine, question)
      if (held !== undefined) return held.answer
    }
    const value = await this.#queue.take(() => this.#lookUp(question, signal))
    return value
  }

  async #lookUp<T>(question: Question<T>, signal: AbortSignal | undefined): Promise<T> {
    const lookup = new StatefulLookup(this.#machine, this.#admission, question)
    for (let replaced = 0; ; replaced++) {
      const ending = this.#ending.signal
      const wanted = lookup.begun ? [] : [signal, this.#closing.signal]
      try {
        const value = await scoped(wanted, wanted => lookup.run(wanted, ending))
        this.#persist()
        this.#renew()
        return value
      } catch (error) {
        // The servers no longer answer this hint, or it has no lookups left. A new hint, of fresh randomness, is asked.
        if (!(error instanceof OutdatedError)) {
          if (lookup.begun) this.#renew() // a failed lookup has used the hint up as well
          throw error
        }
        if (replaced === REPLACED_A_CALL) throw replacedTooOften()
        const rebuild = this.#rebuild(error.reason)
        // A lookup that has not begun need not wait for the download: aborting it shows nothing.
        const giving = lookup.begun ? [] : [signal, this.#closing.signal]
        await scoped(giving, giving => abortable(rebuild.draft, giving))
        await this.#rebuilding.install(rebuild)
        this.#machine.freeRetired()
      }
    }
  }

  async sync(signal?: AbortSignal): Promise<void> {
    await this.#bring({ patient: true }, signal)
    this.#machine.following.lag.assertNone()
  }

  async follow(asked: How): Promise<void> {
    await this.#bring(asked)
  }

  /** To the newest epoch; where no update leads on, with a new state. */
  async #bring(asked: How, signal?: AbortSignal): Promise<void> {
    const done = scoped([signal, this.#closing.signal], async signal => {
      for (let replaced = 0; ; replaced++) {
        try {
          // Once a state was downloaded, who was late meanwhile is not waited for again.
          return await this.#followServers(signal, replaced === 0 ? asked : {})
        } catch (error) {
          if (!(error instanceof OutdatedError)) throw error
          if (replaced === REPLACED_A_CALL) throw replacedTooOften()
          await this.#replace(error.reason)
          if (!asked.patient) return // the servers' next event looks again
        }
      }
    })
    return await abortable(done, signal)
  }

  reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const done = this.#queue.take(() => {
      this.#assertOpen()
      const progress = new ProgressMeter(this.#machine.parts.onProgress, onProgress)
      const caller = { progress, demanded: true }
      return scoped([signal, this.#closing.signal], signal => replace(this.#machine, { ...caller, signal }))
    })
    return abortable(done, signal)
  }

  /** Its state was made when it began. It is made again if no update list leads on from it. */
  prepare(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const done = scoped([signal, this.#closing.signal], async signal => {
      this.#assertOpen()
      if (this.condemned !== undefined) throw new CondemnedError(this.condemned.server)
      if (this.#isFresh() && !this.#machine.hasExpired) return
      try {
        await this.#followServers(signal)
      } catch (error) {
        if (!(error instanceof OutdatedError)) {
          if (error instanceof TamperedError || signal.aborted || !(await this.#machine.needsNoServer())) throw error
          return
        }
        await this.reset(onProgress, signal)
      }
    })
    return abortable(done, signal)
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await this.#queue.idle
    this.#ending.abort(new ClosedError())
    await Promise.allSettled([this.#queue.idle, this.#listening])
    await this.#queue.idle
    await this.#machine.close()
    await this.#rebuilding.free()
  }

  /** Whether servers give what a state is made of, as they said last. */
  get isOffered(): boolean {
    return this.#machine.areDownloadsOffered
  }

  // ---- opening -------------------------------------------------------------------------------------

  /** Before it begins: with a core that can make hints. */
  equip(core: Core): void {
    this.#machine.equip(core)
  }

  /** What the store has of these servers, before anything is done about it. `whole`: or condemned. */
  async stored(): Promise<Stored | undefined> {
    const machine = this.#machine
    const head = await readHead(machine, false).catch(error => {
      // If durable storage is only preferred, a store that fails may be replaced by memory later.
      if (machine.parts.preference === 'required' || !machine.noteFailure(error)) throw error
      return undefined
    })
    if (head === undefined || !belongsTo(head.record, machine.parts.servers)) return undefined
    const stage = head.condemned === undefined ? head.stage : 'whole'
    return { stage, manifest: readManifest(head.record.manifest) }
  }

  /** Brings the state in step with the store, then with the servers, and finishes a lookup that was left pending (S3). */
  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const machine = this.#machine
    const caller = { progress, signal }
    try {
      await this.#queue.take(() => current(machine, caller))
      if (!this.#isFresh()) await this.#catchUpInTime(caller)
      await this.#queue.take(() => this.#takeUp(caller))
    } catch (error) {
      if (!(error instanceof CondemnedError)) throw error
    }
  }

  /** Whether the hint in memory is at the epoch that the servers have shown last in this life of the page. */
  #isFresh(): boolean {
    const { known } = this.#machine
    return known !== undefined && this.#machine.isShown(known.base)
  }

  /** As #catchUp. But a map that can answer without the servers does not wait for a slow server; it follows in the background. */
  async #catchUpInTime({ progress, signal }: Caller): Promise<void> {
    const { clock } = this.#machine.parts.environment
    const followed = scoped([signal, this.#closing.signal], signal => this.#catchUp({ progress, signal }))
    const late = async (signal: AbortSignal) => {
      await sleep(clock, SLOW_MS, signal)
      if (signal.aborted || !(await this.#machine.needsNoServer())) await followed
    }
    await scoped([signal], signal => Promise.race([followed, late(signal)]))
  }

  /** Follows what the servers have published since the state was stored. */
  async #catchUp(caller: Caller, replaced = 0): Promise<void> {
    try {
      await this.#followServers(caller.signal)
    } catch (error) {
      // The servers may be away for a time. A map with all records answers without them; else the next lookup tries again.
      if (error instanceof ServerError && !(error instanceof TamperedError)) return
      if (error instanceof ServersDisagreeError || error instanceof TamperedError) {
        if (!(await this.#machine.needsNoServer())) throw error
        const { servers, stats } = this.#machine.parts
        if (error instanceof ServersDisagreeError) for (const { name } of servers) stats.incident(name, error.code)
        return
      }
      if (!(error instanceof OutdatedError)) throw error
      const { reason } = error
      // Servers still answer an old generation while the new one is downloaded, but nothing else that is outdated. A map with all
      // records needs no server: else one that withholds the download would take them away.
      if (this.#machine.known?.state.kind === 'held') {
        return await this.#replace(reason).catch(async error => {
          const isRefused = error instanceof SignatureError && !(await this.#machine.needsNoServer())
          if (isRefused || isRefusal(error)) throw error
        })
      }
      if (reason === 'generation') return void this.#rebuild(reason)
      if (replaced === REPLACED_A_CALL) throw replacedTooOften()
      await this.#queue.take(() => startOver(this.#machine, reason, caller))
      if (!this.#isFresh()) await this.#catchUp(caller, replaced + 1)
    }
  }

  /**
   * Finishes a pending lookup, and has the fence confirm the state (S8). If a server is away, the map opens all the same:
   * the first lookup tries again before it sends anything else, and the app can call reset().
   */
  async #takeUp(caller: Caller): Promise<void> {
    const machine = this.#machine
    const rounds = new Rounds()
    for (;;) {
      try {
        const hint = machine.live ?? (await current(machine, caller))
        rounds.count(hint)
        if (!machine.offers(hint.scheme)) return // the first lookup asks what they offer
        if (!hint.isPending) return await this.#admission.confirm(hint)
        await finishPending(machine, this.#admission, hint)
      } catch (error) {
        if (isMoved(error)) continue
        const final = [TamperedError, CondemnedError, UnsupportedError].some(kind => error instanceof kind)
        if (final || caller.signal.aborted) throw error
        return
      }
    }
  }

  // ---- following -----------------------------------------------------------------------------------

  /** Brings the state to the newest epoch, as far as updates lead. Lookups go on while the servers are asked. */
  async #followServers(signal: AbortSignal, asked: How = {}): Promise<void> {
    const machine = this.#machine
    const caller = machine.caller(signal)
    for (;;) {
      const { base, scheme } = await this.#queue.take(async () => {
        this.#assertOpen()
        signal.throwIfAborted()
        assertAlive(machine.parts.core)
        return machine.live ?? (await current(machine, caller))
      })
      try {
        const { steps, isAll } = await stepsAfter(machine, scheme, base, signal, asked)
        const last = steps.at(-1)
        if (last !== undefined) await this.#queue.take(() => apply(machine, steps, caller))
        // Another tab may have moved the state meanwhile, and not as far.
        const { known } = machine
        const isThere = last === undefined || (known !== undefined && equalBytes(last.bytes, known.base.bytes))
        if (isAll && isThere) return
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error
        // Another tab may have gone on while that was still possible.
        const hint = await this.#queue.take(() => currentAgain(machine, caller))
        if (equalBytes(hint.base.bytes, base.bytes)) throw error
      }
    }
  }

  /** Listens to the servers' events, or to the tab that does, and follows new epochs. Until the map is closed. */
  listen(): void {
    const { environment } = this.#machine.parts
    const { signal } = this.#closing
    const task = (signal: AbortSignal) => followEvents(this.#machine.parts, this, signal, listenTo)
    if (!this.#machine.durable) {
      this.#listening = whileShown(task, signal)
      return
    }
    const name = tabsName(this.#machine.parts)
    const keepInStep = () =>
      this.#queue
        .take(() => scoped([signal], signal => currentAgain(this.#machine, this.#machine.caller(signal))))
        .catch(() => {})
    const unsubscribe = environment.tabs.subscribe(name, keepInStep)
    const stopHearing = hearLooks(this.#machine.downloads, environment.tabs)
    this.#listening = environment.tabs.elect(name, task, signal).finally(() => {
      unsubscribe()
      stopHearing()
    })
  }

  /** Where the map is, for following events. */
  get base() {
    return this.#machine.known?.base
  }

  get madeAnew(): number {
    return this.#rebuilding.madeAnew
  }

  async #replace(reason: OutdatedError['reason']): Promise<void> {
    const rebuild = this.#rebuild(reason)
    await rebuild.draft
    await this.#queue.take(() => this.#rebuilding.install(rebuild))
  }

  #rebuild(reason: OutdatedError['reason']) {
    return this.#rebuilding.begin(reason, work => this.#queue.take(work))
  }

  /**
   * At a quarter of its lookups left, a new hint is made in the background; if that fails, again at half of what was left
   * then. So its time depends on the number of lookups alone (P5).
   */
  #renew(): void {
    const { lookups, lookupsLeft } = this.#machine.known?.state ?? {}
    const hint = this.#machine.known
    if (hint === undefined || lookups === undefined || lookupsLeft === undefined || this.#closed !== undefined) return
    const due = Math.floor((this.#renewals.get(hint) ?? lookups / 2) / 2)
    if (lookupsLeft > due) return
    this.#renewals.set(hint, lookupsLeft)
    this.#rebuild('spent')
  }

  // ---- the rest ------------------------------------------------------------------------------------

  /** Work that is due after operations, while the lock is held. It stops when another operation waits. */
  async #rest(isWaitedFor: () => boolean): Promise<void> {
    const machine = this.#machine
    await machine.settling
    const mayGoOn = () => this.#closed === undefined && !this.dead
    while (mayGoOn() && !isWaitedFor() && machine.known?.state.step?.() === true) {
      await machine.parts.environment.pause('background')
    }
    if (mayGoOn() && machine.checkpointDue) await machine.writeCheckpoint()
    if (mayGoOn() && !isWaitedFor()) await this.#sweep()
  }

  /** Once in a life of the page, if schemes keep rows. If it fails, the next life tries again. */
  async #sweep(): Promise<void> {
    if (this.#swept || !this.#machine.keepsRows) return
    this.#swept = true
    await sweepRows(this.#machine).catch(() => {})
  }

  /**
   * Asked once, after the first lookup that succeeded. A browser that prompts then asks a user who has seen what it is
   * for; a browser that decides by itself has seen the page in use.
   */
  #persist(): void {
    if (this.#askedToPersist) return
    this.#askedToPersist = true
    this.#machine.persist().catch(() => {})
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }
}
