// The instance behind one or more PirouetteMaps of one identity: a hint and the state it is kept in, and a queue. At
// most one operation is under way at any time, in this session by its queue, in others by a lock, and where a lock was
// missing or taken away, by the store's refusal (keeper.ts).
//
// A caller has its answer as soon as it is verified. Its effect is stored meanwhile, and the lock is kept until it is:
// whoever asks again at once waits for neither.

import { equalBytes, type Manifest, toHex } from '@pirouette/protocol'
import { abortable, scoped } from './abort.js'
import { LOCK_LEASE_MS, LOCK_PATIENCE_MS, ROUNDS } from './constants.js'
import { assertAlive, isDead } from './core.js'
import { ClosedError, CondemnedError, ServerError, StorageError, TamperedError, UnsupportedError } from './errors.js'
import type { StorageKind } from './events.js'
import type { Hint } from './hint.js'
import { Keeper, type Parts, restless, tabsName } from './keeper.js'
import { beginBatch, isPending } from './lookup.js'
import { type OnProgress, ProgressMeter } from './progress.js'
import { listen } from './push.js'
import { openRecords, type Question } from './question.js'
import type { Draft, Watch } from './recovery.js'
import { identityOf } from './servers.js'
import { Meter, type Stats, StatsKeeper } from './stats.js'
import { isMoved, openStorage } from './storage.js'
import { OutdatedError } from './sync.js'
import { linksOf } from './transport.js'

export class Session {
  readonly #parts: Parts
  readonly #keeper: Keeper
  readonly #closing = new AbortController()
  /** operations in the order they were asked for */
  readonly #queue: Operation[] = []
  #working: Promise<void> | undefined
  #closed: Promise<void> | undefined
  #askedToPersist = false
  #rebuilding: Rebuild | undefined
  #listening: Promise<void> = Promise.resolve()
  #following: Promise<void> | undefined
  /** a server has spoken since the last sync() began */
  #heard = false

  private constructor(parts: Parts, keeper: Keeper) {
    this.#parts = parts
    this.#keeper = keeper
  }

  /** Loads the core and takes up the stored state, or runs the offline phase. A condemned state opens, too. */
  static async open(
    { push, ...surroundings }: Omit<Parts, 'core' | 'stats'> & { readonly push: boolean },
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<Session> {
    const { environment, servers, preference, announce } = surroundings
    const core = await environment.loadCore().catch((cause: unknown) => {
      const message =
        'the WebAssembly core could not be loaded; it needs WebAssembly with SIMD, and a content security policy that allows it (wasm-unsafe-eval)'
      throw new UnsupportedError(message, { cause })
    })
    signal.throwIfAborted()
    const opened = await openStorage(environment, identityOf(servers), preference, announce)
    const parts = { ...surroundings, core, stats: new StatsKeeper(servers) }
    const keeper = new Keeper(parts, opened)
    const session = new Session(parts, keeper)
    const progress = new ProgressMeter(onProgress)
    try {
      await session.#begin(progress, signal)
      progress.phase('ready')
      if (push) session.#listen()
      return session
    } catch (error) {
      await session.close()
      throw error
    }
  }

  /** Whether its WebAssembly instance has crashed. Such a session answers every call with UnsupportedError. */
  get dead(): boolean {
    return isDead(this.#parts.core)
  }

  /** undefined: the map is condemned, and of its manifest nothing is known */
  get manifest(): Manifest | undefined {
    return this.#keeper.manifest
  }

  get storage(): StorageKind {
    return this.#keeper.storage
  }

  get stats(): Stats {
    const { hintBytes = 0, permutationBytes = 0, tagBytes = 0 } = this.#keeper.known ?? {}
    return this.#parts.stats.snapshot({ hintBytes, permutationBytes, tagBytes })
  }

  /**
   * Looks a question up, in its turn. `signal` withdraws it if its turn has not come; afterwards it rejects the promise
   * and no more: the requests run on, so that a server cannot tell (P5).
   */
  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    return abortable(
      this.#operate(() => this.#lookUp(question, signal)),
      signal,
    )
  }

  /** Brings the map to the newest version of the database that both servers have. */
  async sync(signal?: AbortSignal): Promise<void> {
    const done = scoped([signal, this.#closing.signal], async signal => {
      try {
        await this.#followServers(signal)
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error
        const rebuild = this.#rebuild(error.reason)
        await rebuild.draft
        await this.#operate(() => this.#install(rebuild))
      }
    })
    return await abortable(done, signal)
  }

  /**
   * A new hint in place of this one, of which nothing is used again. Until the new one is whole the old one stays, a
   * condemned one condemned.
   */
  reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const done = this.#operate(() => {
      this.#assertOpen()
      const progress = new ProgressMeter(onProgress)
      return scoped([signal, this.#closing.signal], signal => this.#keeper.replace({ progress, signal }))
    })
    return abortable(done, signal)
  }

  /**
   * No further calls; those that wait for their turn are refused. A lookup under way runs to its end, which deadlines
   * bound: calling it off would show (P5). Then secrets are overwritten and memory is freed.
   */
  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await Promise.allSettled([this.#working, this.#listening, this.#following])
    await this.#keeper.close()
    const draft = await this.#rebuilding?.draft.catch(() => undefined)
    draft?.free()
  }

  /** The state, in step with the store and then with the servers, and what was left pending in it finished (S3). */
  async #begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const keeper = this.#keeper
    const watch = { progress, signal }
    try {
      await this.#operate(() => keeper.current(watch))
      if (!keeper.fresh) await this.#catchUp(watch)
      await this.#operate(() => this.#takeUp(watch))
    } catch (error) {
      if (!(error instanceof CondemnedError)) throw error
    }
  }

  /** What the servers have done since the state was stored. */
  async #catchUp(watch: Watch): Promise<void> {
    try {
      await this.#followServers(watch.signal)
    } catch (error) {
      if (!(error instanceof OutdatedError)) throw error
      const { reason } = error
      // An old generation answers on while the new one is fetched; anything else is not answered any more.
      if (reason === 'generation') {
        this.#rebuild(reason)
        return
      }
      await this.#operate(() => this.#keeper.startOver(reason, watch))
      if (!this.#keeper.fresh) await this.#catchUp(watch)
    }
  }

  /**
   * Finishes what is pending, and has the fence confirm the state (S8). If servers fail meanwhile, the map opens all the
   * same: the first lookup tries again, and sends nothing else before.
   */
  async #takeUp(watch: Watch): Promise<void> {
    const keeper = this.#keeper
    const rounds = new Rounds()
    for (;;) {
      try {
        const hint = keeper.live ?? (await keeper.current(watch))
        rounds.count(hint)
        if (!isPending(hint)) return await keeper.confirm(hint)
        await keeper.finish(hint)
      } catch (error) {
        if (error instanceof OutdatedError) return
        if (error instanceof ServerError && !(error instanceof TamperedError)) return
        if (!isMoved(error)) throw error
      }
    }
  }

  /** Brings the state to the newest epoch that both servers have. What they are asked, they are asked out of turn. */
  async #followServers(signal: AbortSignal): Promise<void> {
    const keeper = this.#keeper
    const watch = { progress: new ProgressMeter(), signal }
    for (;;) {
      const { base } = await this.#operate(async () => {
        this.#assertWanted(signal)
        return keeper.live ?? (await keeper.current(watch))
      })
      try {
        const steps = await keeper.stepsAfter(base, signal)
        if (steps.length === 0) return
        await this.#operate(() => keeper.apply(steps, watch))
      } catch (error) {
        if (!(error instanceof OutdatedError)) throw error
        // Another tab may have gone on while that was still possible.
        const hint = await this.#operate(() => keeper.follow(watch))
        if (equalBytes(hint.base.bytes, base.bytes)) throw error
      }
    }
  }

  /** Hears of new epochs from the servers, or from the tab that does, and follows. Until the map is closed. */
  #listen(): void {
    const { environment, servers } = this.#parts
    const { signal } = this.#closing
    const links = linksOf(servers, environment, [new Meter(), new Meter()])
    const task = () => listen(links, ({ epoch }) => this.#hear(epoch), signal)
    if (!this.#keeper.durable) {
      this.#listening = task()
      return
    }
    const name = tabsName(servers)
    const follow = () =>
      this.#operate(() => this.#watched(undefined, watch => this.#keeper.follow(watch))).catch(() => {})
    const deafen = environment.tabs.hear(name, follow)
    this.#listening = environment.tabs.lead(name, task, signal).finally(deafen)
  }

  /** A server says that it has this epoch. Whatever fails now, its next line, or the next lookup, tries again. */
  #hear(epoch: number): void {
    if (this.manifest === undefined || epoch <= this.manifest.epoch) return
    this.#heard = true
    this.#following ??= (async () => {
      while (this.#heard && this.#closed === undefined) {
        this.#heard = false
        await this.sync().catch(() => {})
      }
      this.#following = undefined
    })()
  }

  /** Downloads a new hint beside the old one, which answers meanwhile, and then puts it in its place. One at a time. */
  #rebuild(reason: OutdatedError['reason']): Rebuild {
    if (this.#rebuilding !== undefined) return this.#rebuilding
    this.#parts.announce({ type: 'outdated', reason })
    const watch = { progress: new ProgressMeter(), signal: this.#closing.signal }
    const draft = this.#keeper.prepare(watch)
    const rebuild: Rebuild = { draft, watch, installing: undefined }
    this.#rebuilding = rebuild
    draft
      .then(() => this.#operate(() => this.#install(rebuild)))
      .catch(() => {
        // The next lookup that needs it, or the next word of the servers, begins again.
        if (this.#rebuilding === rebuild) this.#rebuilding = undefined
      })
    return rebuild
  }

  /** Whoever waits for it hears how it went. */
  async #install(rebuild: Rebuild): Promise<void> {
    const draft = await rebuild.draft
    if (this.#rebuilding === rebuild) this.#rebuilding = undefined
    rebuild.installing ??= this.#keeper.install(draft, rebuild.watch, true)
    await rebuild.installing
  }

  async #lookUp<T>(question: Question<T>, signal: AbortSignal | undefined): Promise<T> {
    const { stats, environment, publisher } = this.#parts
    const keeper = this.#keeper
    const rounds = new Rounds()
    for (;;) {
      this.#assertWanted(signal)
      const hint = keeper.live ?? (await this.#watched(signal, watch => keeper.current(watch)))
      if (publisher !== undefined) await this.#watched(signal, watch => keeper.assertVouched(hint, watch))
      this.#assertWanted(signal)
      rounds.count(hint)
      const indices = question.indices(hint)
      try {
        if (isPending(hint)) {
          // An earlier call's batch, or another tab's. Its records are thrown away, even if they are what this call
          // asks for: a server that lets a lookup time out must not learn whether the next one is equal (P4).
          await keeper.finish(hint)
          continue
        }
        const start = environment.clock.now()
        const before = stats.onlineTotal()
        beginBatch(hint, indices, environment.random(32))
        const { records: bytes, lists } = await keeper.finish(hint, true)
        const records = await this.#open(hint, indices, bytes)
        stats.lookedUp(before, environment.clock.now() - start)
        this.#persist()
        return question.read(hint, records, lists)
      } catch (error) {
        // The servers no longer answer this hint, whatever is asked: its successor is asked, under fresh permutations.
        if (error instanceof OutdatedError) await this.#install(this.#rebuild(error.reason))
        // Another tab was faster, and nothing was sent. What was made of the old state is forgotten.
        else if (!isMoved(error)) throw error
      }
    }
  }

  /** Runs what may be called off, before a lookup has begun. */
  async #watched<T>(signal: AbortSignal | undefined, work: (watch: Watch) => Promise<T>): Promise<T> {
    const progress = new ProgressMeter()
    return await scoped([signal, this.#closing.signal], signal => work({ progress, signal }))
  }

  async #open(hint: Hint, indices: Uint32Array, bytes: Uint8Array) {
    try {
      return openRecords(hint, indices, bytes)
    } catch (error) {
      if (error instanceof StorageError) await this.#keeper.condemn(hint)
      throw error
    }
  }

  /** Runs `work` in its turn and under the lock of this identity. */
  #operate<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = async () => {
        try {
          resolve(await work())
        } catch (error) {
          reject(error)
        }
      }
      this.#queue.push({ run, refuse: reject })
      this.#working ??= this.#work()
    })
  }

  async #work(): Promise<void> {
    await undefined // what is called off in the same breath has not begun
    while (this.#queue.length > 0) {
      try {
        await this.#locked(() => this.#workWhileLocked())
      } catch (error) {
        this.#queue.shift()?.refuse(error) // the lock was not to be had
      }
    }
    this.#working = undefined // in one step with finding the queue empty
  }

  /** Works the queue off, for as long as other tabs may be kept waiting; then does what has become due. */
  async #workWhileLocked(): Promise<void> {
    const { clock, pause } = this.#parts.environment
    const keeper = this.#keeper
    const until = clock.now() + LOCK_LEASE_MS
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      await next.run()
      keeper.freeRetired()
      if (!keeper.durable) continue
      if (this.#queue.length === 0) await pause() // the caller may ask again
      if (clock.now() >= until) break
    }
    await keeper.settled()
    if (this.#closed === undefined && !this.dead && keeper.checkpointDue) await keeper.writeCheckpoint()
  }

  async #locked(work: () => Promise<void>): Promise<void> {
    if (!this.#keeper.durable) return await work()
    const { environment, servers } = this.#parts
    // close() need not wait for a lock that somebody else holds.
    const waiting = new AbortController()
    const giveUp = () => waiting.abort(this.#closing.signal.reason)
    if (this.#closing.signal.aborted) giveUp()
    this.#closing.signal.addEventListener('abort', giveUp)
    const waited = () => this.#closing.signal.removeEventListener('abort', giveUp)
    const held = environment.locks.hold(`pirouette ${identityOf(servers).join(' ')}`, LOCK_PATIENCE_MS, async () => {
      waited()
      waiting.signal.throwIfAborted()
      return await work()
    })
    return await abortable(held, waiting.signal).finally(waited)
  }

  /**
   * Asked once, after the first lookup that went well: a browser that prompts then interrupts somebody who has seen
   * what it is for, and one that decides by itself has seen the page used.
   */
  #persist(): void {
    if (this.#askedToPersist) return
    this.#askedToPersist = true
    this.#keeper.persist().catch(() => {})
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }

  #assertWanted(signal: AbortSignal | undefined): void {
    this.#assertOpen()
    signal?.throwIfAborted()
    assertAlive(this.#parts.core)
  }
}

/** A new hint in the making, beside the one in use. */
interface Rebuild {
  readonly draft: Promise<Draft>
  readonly watch: Watch
  installing: Promise<void> | undefined
}

interface Operation {
  /** settles when it is over; never rejects */
  run(): Promise<void>
  refuse(error: unknown): void
}

/** An operation starts over as often as another tab gets ahead of it, but not for ever while nothing has moved. */
class Rounds {
  #at = ''
  #idle = 0

  count(hint: Hint): void {
    const at = `${toHex(hint.record.hintId)} ${hint.version}`
    this.#idle = at === this.#at ? this.#idle + 1 : 0
    this.#at = at
    if (this.#idle >= ROUNDS) throw restless()
  }
}
