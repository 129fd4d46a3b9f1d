// Watched keys of a `fakeMap()`: told when the test publishes.

import { equalBytes, fromHex, toHex } from '@keyhush/protocol'
import { onAbort } from '../base/abort.js'
import type { Found } from '../lookup/question.js'
import { Calls } from '../watching/telling.js'
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
  #calling: Promise<void> = Promise.resolve()

  constructor(look: LookUp, epoch: () => number) {
    this.#look = look
    this.#epoch = epoch
  }

  async watch(
    key: Uint8Array,
    onChange: OnChange,
    { since, save }: WatchedHow,
    { stopped, over }: Ends,
  ): Promise<Watch> {
    const value = await this.#look(key, stopped[0])
    const own: FakeWatched = { key: toHex(key), value, epoch: this.#epoch(), checked: new Date(), onChange, save }
    this.#watched.push(own)
    const stop = () => {
      own.onChange = undefined
    }
    for (const signal of stopped) if (signal !== undefined) onAbort(signal, stop)
    const end = () => {
      stop()
      own.save = undefined
    }
    for (const signal of over) onAbort(signal, end)
    const mark = since === undefined ? undefined : markIn(since, own.key)
    const isSame = mark !== undefined && isEqual(mark.value, value)
    if (since !== undefined && !isSame) {
      // The app has its watch before its listener is called.
      this.#inTurn(() => new Promise(resolve => setTimeout(resolve)))
      this.#tell(own, { value, before: mark?.value, epoch: own.epoch, how: mark === undefined ? 'gap' : 'list' })
    }
    this.#save(own)
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

  /** The test has published. `valueIn`: of a key in hex. `how`: changes are told so; what is no list is told without a difference, too. */
  published(valueIn: (key: string) => Found, how: Change['how']): void {
    for (const own of this.#watched) {
      const before = own.value
      own.value = valueIn(own.key)
      own.epoch = this.#epoch()
      own.checked = new Date()
      const { value, epoch } = own
      if (how !== 'list' || !isEqual(value, before)) this.#tell(own, { value, before, epoch, how })
      this.#save(own)
    }
  }

  #tell(own: FakeWatched, change: Change): void {
    this.#inTurn(() => this.#calls.make(own.onChange, change))
  }

  #save(own: FakeWatched): void {
    const mark = markOf(own)
    this.#inTurn(() => this.#calls.make(own.save, mark))
  }

  #inTurn(work: () => void | Promise<void>): void {
    this.#calling = this.#calling.then(work)
  }
}

function markOf({ key, value }: FakeWatched): string {
  return `fake ${key} ${value === undefined ? 'absent' : toHex(value)}`
}

/** Undefined: it is none, or another key's. */
function markIn(text: string, key: string): { readonly value: Found } | undefined {
  const [, of, value] = /^fake (\S+) (absent|(?:[\da-f]{2})*)$/.exec(text) ?? []
  if (value === undefined || of !== key) return undefined
  return { value: value === 'absent' ? undefined : (fromHex(value) as Found) }
}

function isEqual(a: Found, b: Found): boolean {
  return a === undefined || b === undefined ? a === b : equalBytes(a, b)
}
