// A session whose scheme keeps no state: it has a manifest and a directory. There is no turn, no lock, no journal and no
// fence: lookups are independent of one another, and one that fails may be made again, out of fresh randomness.

import type { Manifest } from '@pirouette/protocol'
import type { DirectoryHandle } from '@pirouette/wasm'
import { abortable, scoped } from '../base/abort.js'
import { ATTEMPTS } from '../base/constants.js'
import { ClosedError, TamperedError } from '../base/errors.js'
import type { StorageKind } from '../base/events.js'
import { type OnProgress, ProgressMeter } from '../base/progress.js'
import { exchange, hasTurned } from '../lookup/exchange.js'
import { openRecords, type Place, type Question } from '../lookup/question.js'
import { assertAlive, isDead, release } from '../platform/core.js'
import { downloadDirectory, FailedServers } from '../scheme/download.js'
import type { SchemeContext, StatelessScheme } from '../scheme/scheme.js'
import { type Agreed, agree } from '../servers/manifests.js'
import type { Stats } from '../servers/stats.js'
import { type Link, linksOf } from '../servers/transport.js'
import type { Base } from '../servers/updates.js'
import type { Parts } from '../state/machine.js'
import { followEvents } from './events.js'
import type { Session } from './session.js'

export class StatelessSession implements Session {
  readonly #parts: Parts
  readonly #scheme: StatelessScheme
  readonly #over: (error: unknown) => void
  /** what an earlier life has seen, which a publisher's word does not go back from */
  readonly #remembered: Manifest | undefined
  readonly #downloads: readonly [Link, Link]
  readonly #lookups: readonly [Link, Link]
  readonly #closing = new AbortController()
  readonly #underWay = new Set<Promise<unknown>>()
  /** of earlier epochs, to be freed when no lookup may look at them any more */
  readonly #retired: DirectoryHandle[] = []
  #at: (Place & Agreed) | undefined
  #closed: Promise<void> | undefined
  /** closed, and no lookup is under way any more */
  #ended = false
  #listening: Promise<void> = Promise.resolve()
  #syncing: Promise<void> | undefined

  /**
   * `over`: told of each lookup that has ended, whoever still waits for it, and of the error it has ended with.
   * `remembered`: what an earlier life has seen.
   */
  constructor(
    parts: Parts,
    scheme: StatelessScheme,
    over: (error: unknown) => void = () => {},
    remembered?: Manifest | undefined,
  ) {
    this.#parts = parts
    this.#scheme = scheme
    this.#over = over
    this.#remembered = remembered
    this.#downloads = linksOf(parts.servers, parts.environment, parts.stats.offline)
    this.#lookups = linksOf(parts.servers, parts.environment, parts.stats.online)
  }

  get dead(): boolean {
    return isDead(this.#parts.core)
  }

  get manifest(): Manifest | undefined {
    return this.#at?.manifest
  }

  get mode(): string {
    return this.#scheme.name
  }

  get storage(): StorageKind {
    return 'memory'
  }

  get stats(): Stats {
    return this.#parts.stats.snapshot({ fenced: undefined, held: {}, remaining: undefined })
  }

  get base(): Base | undefined {
    return this.#at && { manifest: this.#at.manifest, bytes: this.#at.bytes, form: 'delta' }
  }

  async begin(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    await this.#moveToNewest(progress, signal)
  }

  listen(): void {
    const { servers, environment, core } = this.#parts
    this.#listening = followEvents(servers, environment, core, this, this.#closing.signal)
  }

  ask<T>(question: Question<T>, signal?: AbortSignal): Promise<T> {
    const answer = this.#lookUp(question, signal)
    const settled = answer
      .then(
        () => undefined,
        error => error,
      )
      .then(this.#over)
    this.#underWay.add(settled)
    settled
      .then(() => {
        this.#underWay.delete(settled)
        if (this.#underWay.size === 0) this.#freeRetired()
      })
      .catch(() => {})
    return abortable(answer, signal)
  }

  async #lookUp<T>(question: Question<T>, signal: AbortSignal | undefined): Promise<T> {
    this.#assertOpen()
    signal?.throwIfAborted()
    const { environment, stats, publisher, core } = this.#parts
    const start = environment.clock.now()
    const before = stats.onlineTotal()
    // From here on the app has no say: a lookup that has begun ends as ever (P5), at whatever epoch.
    for (let attempt = 1; ; attempt++) {
      assertAlive(core)
      const at = this.#at!
      publisher?.checkExpiry(at.manifest)
      const indices = question.indices(at)
      try {
        const records = openRecords(at, indices, await this.#records(at.manifest, indices))
        publisher?.checkExpiry(at.manifest)
        stats.lookedUp(before, environment.clock.now() - start)
        return question.read(at, records, [])
      } catch (error) {
        if (attempt === ATTEMPTS || !hasTurned(error, at.manifest)) throw error
        await this.#follow()
        if (this.#at === at) throw error
      }
    }
  }

  async #records(manifest: Manifest, indices: Uint32Array): Promise<Uint8Array> {
    const { environment, stats } = this.#parts
    const batch = this.#scheme.begin(this.#context, manifest, indices)
    try {
      // Which server is which party is drawn anew each time.
      const links = (environment.random(1)[0]! & 1) === 0 ? this.#lookups : [...this.#lookups].reverse()
      await exchange({ manifest, batch, links, stats, onForged: async () => {} })
      const records = batch.finish()
      if (records !== undefined) return records
      const names = links.map(({ server }) => server.name).sort()
      throw new TamperedError(undefined, `one of ${names.join(' and ')} has answered with what is not in the database`)
    } finally {
      batch.free()
    }
  }

  async sync(signal?: AbortSignal): Promise<void> {
    this.#assertOpen()
    await abortable(this.#follow(), signal)
  }

  /** One at a time, and never called off: lookups wait for it, whoever gives up. */
  #follow(): Promise<void> {
    this.#syncing ??= this.#moveToNewest(new ProgressMeter(), new AbortController().signal).finally(() => {
      this.#syncing = undefined
    })
    return this.#syncing
  }

  /** Nothing is kept, so that it begins anew with what the servers have now. */
  async reset(onProgress: OnProgress, signal?: AbortSignal): Promise<void> {
    this.#assertOpen()
    const progress = new ProgressMeter(onProgress)
    await scoped([signal, this.#closing.signal], signal => this.#moveToNewest(progress, signal))
    progress.phase('ready')
  }

  close(): Promise<void> {
    this.#closing.abort(new ClosedError())
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    await Promise.allSettled([...this.#underWay, this.#listening, this.#syncing])
    this.#ended = true
    this.#retire()
    this.#freeRetired()
  }

  /** To the newest epoch that both servers have. The directory is fetched again if it is another. */
  async #moveToNewest(progress: ProgressMeter, signal: AbortSignal): Promise<void> {
    const { core, environment, publisher, stats, announce } = this.#parts
    const before = this.#at
    progress.phase('manifest')
    const agreed = await agree(this.#downloads, signal)
    await publisher?.check(agreed, this.#downloads, signal)
    const seen = before?.manifest ?? this.#remembered
    if (seen !== undefined) publisher?.checkSuccession(seen, agreed.manifest)
    const { manifest } = agreed
    this.#scheme.costs(core, manifest, this.#parts.options) // throws if the database has no such lookups
    if (before !== undefined && manifest.epoch <= before.manifest.epoch) return
    progress.expect(manifest.directoryBytes)
    const received = (bytes: number) => progress.add(bytes)
    const sources = { servers: this.#downloads, failures: new FailedServers(this.#downloads, stats), received }
    const { handle: directory } = await downloadDirectory({ core, environment }, manifest, sources, signal)
    if (this.#ended || this.#at !== before) return release(core, directory)
    this.#retire()
    if (this.#underWay.size === 0) this.#freeRetired()
    this.#at = { core, directory, ...agreed }
    const { generation, epoch } = manifest
    if (before !== undefined) announce({ type: 'updated', generation, epoch })
  }

  get #context(): SchemeContext {
    const { core, environment, options } = this.#parts
    return { core, environment, options }
  }

  #retire(): void {
    if (this.#at?.directory !== undefined) this.#retired.push(this.#at.directory)
    this.#at = undefined
  }

  #freeRetired(): void {
    for (const directory of this.#retired.splice(0)) release(this.#parts.core, directory)
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw new ClosedError()
  }
}
