// Sessions of mode `filter`: they keep a filter, and look nothing up.

import type { Manifest } from '@keyhush/protocol'
import { abortable } from '../base/abort.js'
import { ClosedError, UnsupportedError, UsageError } from '../base/errors.js'
import type { StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import type { Question } from '../lookup/question.js'
import { assertAlive, isDead } from '../platform/core.js'
import { startInstant } from '../platform/starting.js'
import { FILTER } from '../scheme/facts.js'
import { type Greeting, greet } from '../servers/info.js'
import type { Stats } from '../servers/stats.js'
import { linksOf } from '../servers/transport.js'
import type { FilterInfo, Session } from '../session/session.js'
import { Filter, type FilterParts } from './filter.js'

/** Asks the servers what they have while the core and the store are opened. */
export async function filterSession(given: Omit<FilterParts, 'core'>, signal: AbortSignal): Promise<FilterSession> {
  const { servers, environment, stats, announce } = given
  const greeting = greet(linksOf(servers, environment, stats.standing, stats.offline), environment, signal)
  const core = await startInstant(environment, announce)
  signal.throwIfAborted()
  const parts = { ...given, core }
  return new FilterSession(parts, await Filter.open(parts), greeting)
}

class FilterSession implements Session {
  readonly #parts: FilterParts
  readonly #filter: Filter
  readonly #greeting: Greeting
  readonly mode = FILTER
  readonly condemned = undefined
  #closed: Promise<void> | undefined

  constructor(parts: FilterParts, filter: Filter, greeting: Greeting) {
    this.#parts = parts
    this.#filter = filter
    this.#greeting = greeting
  }

  get dead(): boolean {
    return isDead(this.#parts.core)
  }

  get manifest(): Manifest | undefined {
    return this.#filter.held?.at.manifest
  }

  get storage(): StorageKind {
    return this.#filter.storage
  }

  get stats(): Stats {
    const held = { filter: this.#filter.info.bytes }
    const { stats, core } = this.#parts
    const shown = stats.snapshot({ core: core.kind, fenced: undefined, held, lookupsLeft: undefined })
    return { ...shown, unsent: stats.lookups }
  }

  get filter(): FilterInfo {
    return this.#filter.info
  }

  /** A stored filter answers offline too; else servers are asked first. */
  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    if (this.#filter.held === undefined) await this.#filter.download(progress, signal, this.#greeting)
    else await abortable(this.#filter.refresh(this.#greeting), signal)
  }

  listen(): void {
    this.#filter.listen()
  }

  excludes(key: Uint8Array): boolean {
    this.#assertOpen()
    this.#filter.refresh().catch(() => {}) // for the next call
    return this.#filter.absentOf([key])?.[0] ?? false
  }

  async ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    this.#assertOpen()
    signal?.throwIfAborted()
    const { stats } = this.#parts
    if (question.keys === undefined) {
      throw new UsageError("expected a map that looks up, got mode 'filter'; open another map")
    }
    await abortable(this.#filter.refresh(), signal)
    const absent = this.#filter.absentOf(question.keys)
    if (absent === undefined || absent.includes(false)) {
      const what = `expected keys that the filter excludes, got one that may be listed, and the filter is ${this.filter.state}`
      throw new UnsupportedError('filter', `${what}; look it up with another map`)
    }
    stats.lookedUp(stats.onlineTotal(), 0)
    return absent.map(() => undefined) as T
  }

  async sync(signal?: AbortSignal): Promise<void> {
    this.#assertOpen()
    await abortable(this.#filter.follow({ patient: true }), signal)
  }

  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    this.#assertOpen()
    const progress = new ProgressMeter(this.#parts.onProgress, onProgress)
    await this.#filter.download(progress, signal ?? new AbortController().signal)
    progress.phase('ready')
  }

  async prepare(): Promise<void> {
    this.#assertOpen()
    throw new UsageError("prepare: expected a map that may keep a state, got mode 'filter'; open({ mode: 'auto' })")
  }

  async close(): Promise<void> {
    this.#closed ??= this.#filter.close()
    await this.#closed
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
    assertAlive(this.#parts.core)
  }
}
