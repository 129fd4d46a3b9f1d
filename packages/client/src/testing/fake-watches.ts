// FakeWatched keys of a `fakeMap()`: told when the test publishes.

import { equalBytes, fromHex, toHex } from '@keyhush/protocol'
import { onAbort } from '../base/abort.js'
import type { Found } from '../lookup/question.js'
import { Calls } from '../watching/calls.js'
import type { Change, Ends, OnChange, Watch, WatchedHow, Watcher } from '../watching/watch.js'

/** Looks a key up, as the map does. */
type LookUp = (key: Uint8Array, signal: AbortSignal | undefined) => Promise<Found>

interface FakeWatched {
  readonly key: string
  value: Found
  epoch: number
  checked: Date
  onChange: OnChange | undefined
  save: WatchedHow['save']
}

export class FakeWatcher implements Watcher {
  readonly #look: LookUp
  readonly #epoch: () => number
  readonly #watched: FakeWatched[] = []
  readonly #calls = new Calls()

  constructor(look: LookUp, epoch: () => number) {
    this.#look = look
    this.#epoch = epoch
  }

  async watch(
    key: Uint8Array,
    onChange: OnChange,
    { since, save }: WatchedHow,
    { stopped, closed }: Ends,
  ): Promise<Watch> {
    const value = await this.#look(key, stopped[0])
    const own: FakeWatched = { key: toHex(key), value, epoch: this.#epoch(), checked: new Date(), onChange, save }
    this.#watched.push(own)
    const stop = () => {
      own.onChange = undefined
    }
    for (const signal of stopped) if (signal !== undefined) onAbort(signal, stop)
    onAbort(closed, () => {
      stop()
      own.save = undefined
    })
    const mark = since === undefined ? undefined : markIn(since)
    const isSame = mark !== undefined && isEqual(mark.value, value)
    if (since !== undefined && !isSame) {
      this.#tell(own, { value, before: mark?.value, epoch: own.epoch, how: mark === undefined ? 'gap' : 'list' })
    }
    this.#call(own.save, markOf(own))
    return {
      get value() {
        return own.value?.slice()
      },
      get epoch() {
        return own.epoch
      },
      get checked() {
        return own.checked
      },
      stop,
    }
  }

  async sync(): Promise<void> {}

  assertQuiet(): void {
    this.#calls.assertNone()
  }

  /** The test has published. `valueIn`: of a key in hex. */
  published(valueIn: (key: string) => Found): void {
    for (const own of this.#watched) {
      const before = own.value
      own.value = valueIn(own.key)
      own.epoch = this.#epoch()
      own.checked = new Date()
      if (!isEqual(own.value, before)) this.#tell(own, { value: own.value, before, epoch: own.epoch, how: 'list' })
      this.#call(own.save, markOf(own))
    }
  }

  #tell(own: FakeWatched, change: Change): void {
    this.#call(own.onChange, change)
  }

  #call<T>(call: ((of: T) => void) | undefined, of: T): void {
    queueMicrotask(() => this.#calls.make(call, of))
  }
}

function markOf({ epoch, value }: FakeWatched): string {
  return `fake ${epoch} ${value === undefined ? 'absent' : toHex(value)}`
}

function markIn(text: string): { readonly value: Found } | undefined {
  const [, digits] = /^fake \d+ (absent|(?:[\da-f]{2})*)$/.exec(text) ?? []
  if (digits === undefined) return undefined
  return { value: digits === 'absent' ? undefined : (fromHex(digits) as Found) }
}

function isEqual(a: Found, b: Found): boolean {
  return a === undefined || b === undefined ? a === b : equalBytes(a, b)
}
