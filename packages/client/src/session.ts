// The instance behind one or more PirouetteMaps of one identity: a hint, the two links, and a queue. At most one lookup
// is under way at any time.

import type { Manifest } from '@pirouette/protocol'
import type { Core } from '@pirouette/wasm'
import { abortable, scoped } from './abort.js'
import { isDead } from './core.js'
import type { Environment } from './environment.js'
import { ClosedError, StorageError, UnsupportedError } from './errors.js'
import { Hint, hintRecord } from './hint.js'
import { beginBatch, finishBatch, isPending } from './lookup.js'
import { agree } from './manifest.js'
import { download } from './offline.js'
import { type OnProgress, ProgressMeter } from './progress.js'
import { openRecords, type Question } from './question.js'
import type { ServerPair } from './servers.js'
import { type Meter, type Stats, StatsKeeper } from './stats.js'
import { type StateStore, stored } from './store/store.js'
import type { Link } from './transport.js'
import { Turns } from './turns.js'

export class Session {
  readonly #parts: Parts
  readonly #turns = new Turns()
  readonly #closing = new AbortController()
  #hint: Hint
  #closed: Promise<void> | undefined

  private constructor(parts: Parts, hint: Hint) {
    this.#parts = parts
    this.#hint = hint
  }

  /** Loads the core and runs the offline phase. */
  static async open(
    environment: Environment,
    servers: ServerPair,
    onProgress: OnProgress,
    signal: AbortSignal,
  ): Promise<Session> {
    const core = await environment.loadCore().catch((cause: unknown) => {
      const message =
        'the WebAssembly core could not be loaded; it needs WebAssembly with SIMD, and a content security policy that allows it (wasm-unsafe-eval)'
      throw new UnsupportedError(message, { cause })
    })
    signal.throwIfAborted()
    const store = await stored(environment.openStore())
    const parts = { core, environment, servers, store, stats: new StatsKeeper(servers) }
    try {
      return new Session(parts, await newHint(parts, onProgress, signal))
    } catch (error) {
      await store.close()
      throw error
    }
  }

  /** Whether its WebAssembly instance has crashed. Such a session answers every call with UnsupportedError. */
  get dead(): boolean {
    return isDead(this.#parts.core)
  }

  get manifest(): Manifest {
    return this.#hint.manifest
  }

  get stats(): Stats {
    const { hintBytes, permutationBytes } = this.#hint
    return this.#parts.stats.snapshot({ hintBytes, permutationBytes })
  }

  /**
   * Looks a question up, in its turn. `signal` withdraws it if its turn has not come; afterwards it rejects the promise
   * and no more: the requests run on, so that a server cannot tell (P5).
   */
  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    const answer = this.#turns.take(async () => {
      this.#assertWanted(signal)
      const indices = question.indices(this.#hint)
      if (isPending(this.#hint)) {
        // An earlier call's batch. Its records are thrown away, even if they are what this call asks for: a server that
        // lets a lookup time out must not learn whether the next one is equal (P4).
        await this.#finish()
        this.#assertWanted(signal)
      }
      const { stats, environment } = this.#parts
      const start = environment.clock.now()
      const before = stats.onlineTotal()
      beginBatch(this.#hint, indices, environment.random(32))
      const records = await this.#open(indices, await this.#finish())
      stats.lookedUp(before, environment.clock.now() - start)
      return question.read(this.#hint, records)
    })
    return abortable(answer, signal)
  }

  /**
   * A new hint in place of this one, of which nothing is used again. Until the new one is whole the old one stays, a
   * condemned one condemned.
   */
  reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    const done = this.#turns.take(async () => {
      this.#assertOpen()
      const signals = [signal, this.#closing.signal]
      const hint = await scoped(signals, signal => newHint(this.#parts, onProgress, signal))
      this.#hint.free()
      this.#hint = hint
    })
    return abortable(done, signal)
  }

  /**
   * No further calls; those that wait for their turn are refused. A lookup under way runs to its end, which deadlines
   * bound: calling it off would show (P5). Then secrets are overwritten and memory is freed.
   */
  close(): Promise<void> {
    this.#closed ??= this.#turns.take(async () => {
      this.#hint.free()
      await this.#parts.store.close()
    })
    this.#closing.abort(new ClosedError())
    return this.#closed
  }

  async #finish(): Promise<Uint8Array> {
    const { environment, servers, store, stats } = this.#parts
    return await finishBatch({ hint: this.#hint, links: linksOf(servers, environment, stats.online), store, stats })
  }

  async #open(indices: Uint32Array, bytes: Uint8Array) {
    try {
      return openRecords(this.#hint, indices, bytes)
    } catch (error) {
      if (error instanceof StorageError) {
        this.#hint.condemn(undefined)
        await stored(this.#parts.store.condemn(undefined))
      }
      throw error
    }
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }

  #assertWanted(signal: AbortSignal | undefined): void {
    this.#assertOpen()
    signal?.throwIfAborted()
    this.#hint.assertUsable()
  }
}

interface Parts {
  readonly core: Core
  readonly environment: Environment
  readonly servers: ServerPair
  readonly store: StateStore
  readonly stats: StatsKeeper
}

/** The offline phase, start to end. The store knows of the hint only once it is whole. */
async function newHint(parts: Parts, onProgress: OnProgress, outer: AbortSignal): Promise<Hint> {
  const { core, environment, servers, store, stats } = parts
  const links = linksOf(servers, environment, stats.offline)
  const progress = new ProgressMeter(onProgress)
  return await scoped([outer], async signal => {
    progress.phase('manifest')
    const { manifest, bytes } = await agree(links, signal)
    const downloaded = await download({ core, environment, manifest, links, progress, stats }, signal)
    // Once for the life of a hint, at random: a role that followed from a server's name or position would be as good,
    // until one of them changes (S5).
    const coin = (environment.random(1)[0]! & 1) as 0 | 1
    const hint = new Hint({ core, manifest, ...downloaded, roles: coin === 0 ? [0, 1] : [1, 0] })
    try {
      progress.phase('ready') // all that can be called off is done
      signal.throwIfAborted()
      await stored(store.begin(hintRecord(hint, servers, bytes)))
      return hint
    } catch (error) {
      hint.free()
      throw error
    }
  })
}

function linksOf(
  servers: ServerPair,
  environment: Environment,
  meters: readonly [Meter, Meter],
): readonly [Link, Link] {
  return [
    { server: servers[0], environment, meter: meters[0] },
    { server: servers[1], environment, meter: meters[1] },
  ]
}
