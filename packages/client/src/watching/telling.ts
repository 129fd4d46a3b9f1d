// What apps are told of watched keys: each change once, in order, and then the mark. What is told twice, because a page ends between the
// two, is better than what is not told.

import { equalBytes } from '@keyhush/protocol'
import { UsageError } from '../base/errors.js'
import { Turns } from '../base/mutex.js'
import type { Environment } from '../platform/environment.js'
import type { Sighting } from './marks.js'
import type { Change, OnChange, WatchedHow } from './watch.js'

/**
 * Calls of listeners. While one runs, its app cannot ask anything of the map: a request that is made because a key has changed shows whose
 * key that was. What runs later, as after an `await`, cannot be held back.
 */
export class Calls {
  #isUnderWay = false

  /** What the app's function throws is the platform's to report, and harms nobody else. */
  make<T>(call: ((of: T) => void) | undefined, of: T): void {
    this.#isUnderWay = true
    try {
      call?.(of)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    } finally {
      this.#isUnderWay = false
    }
  }

  /** Throws UsageError while a call runs. */
  assertNone(): void {
    if (!this.#isUnderWay) return
    throw new UsageError(
      'expected no call while a listener of watch() runs, got one: servers could tell by it whose key has changed; show the change, and ask nothing because of it',
    )
  }
}

/** The app of a watched key. */
export class Listener {
  /** undefined: nobody listens */
  onChange: OnChange | undefined
  save: WatchedHow['save']
  /** whether the app has its watch: it is told nothing before */
  isOpen = false
  readonly #changes: Change[] = []
  #knowsOfFork = false
  #saved: string | undefined

  constructor(onChange: OnChange, save: WatchedHow['save']) {
    this.onChange = onChange
    this.save = save
  }

  /** Whether all changes have been told. */
  get isTold(): boolean {
    return this.#changes.length === 0
  }

  /** The key was `before`, and is `now`. */
  note(before: Sighting, now: Sighting, how: Change['how']): void {
    const [value, old] = [now, before].map(({ value }) => value?.slice())
    this.#changes.push({ value, before: old, epoch: now.manifest.epoch, how })
  }

  /** There are two histories. That is told once; also that the key is another one `now`, in the history that is followed. */
  noteFork(before: Sighting, now: Sighting): void {
    const isSame = equalBytes(before.place.record!, now.place.record!)
    if (!this.#knowsOfFork || !isSame) this.note(before, now, 'contradiction')
    this.#knowsOfFork = true
  }

  /** What it has not heard of yet, each in a task of its own. */
  async tell(calls: Calls, pause: Environment['pause']): Promise<void> {
    for (let change = this.#changes.shift(); change !== undefined; change = this.#changes.shift()) {
      await pause('background')
      calls.make(this.onChange, change)
    }
  }

  /** Gives a mark, unless it was given last. */
  keep(calls: Calls, mark: string): void {
    if (mark !== this.#saved) calls.make(this.save, mark)
    this.#saved = mark
  }
}

/** A watched key, and what its app has to keep; undefined: nothing yet. */
interface Told {
  readonly app: Listener
  readonly mark: string | undefined
}

/** Tells the apps of all keys, one after the other. */
export class Telling {
  readonly calls = new Calls()
  readonly #keys: readonly Told[]
  readonly #pause: Environment['pause']
  readonly #onTold: () => void
  readonly #turns = new Turns()

  /** `onTold`: called when an app has heard of all changes, and has no mark of them yet */
  constructor(keys: readonly Told[], pause: Environment['pause'], onTold: () => void) {
    this.#keys = keys
    this.#pause = pause
    this.#onTold = onTold
  }

  /** Tells this app too, from the task after the one in which it gets its watch. */
  async open({ app }: Told): Promise<void> {
    await this.#pause('background')
    app.isOpen = true
    this.soon()
  }

  soon(): void {
    void this.#turns.take(async () => {
      for (const own of [...this.#keys]) {
        if (!own.app.isOpen) continue
        await own.app.tell(this.calls, this.#pause)
        this.#onTold()
        const { mark } = own
        if (mark !== undefined) own.app.keep(this.calls, mark)
      }
    })
  }
}
