// A watched key: where it was seen last, and what that says of what was seen before.

import { decodeRecord, equalBytes, type Manifest, WireError } from '@keyhush/protocol'
import type { Moved, Place } from '../lookup/moved.js'
import type { Found } from '../lookup/question.js'
import { type Hashed, type Mark, type Sighting, writeMark } from './marks.js'
import type { Listener } from './telling.js'
import type { Change } from './watch.js'

/**
 * Why no list leads from a sighting to where the lists are read now. `gap`: servers do not have them. `fork`: that is of another history,
 * as if the publisher had signed two manifests of one epoch. `database`: that is another database.
 */
export type Why = 'gap' | 'fork' | 'database'

export class Watched {
  readonly key: Uint8Array
  readonly print: Uint8Array
  readonly app: Listener
  #seen: Sighting
  /** what a lookup says of a later epoch, until the lists lead there */
  #found: Sighting | undefined
  /** from which epoch on it has to be looked up, and why */
  #lost: { readonly from: number; readonly why: Why } | undefined
  /** until when silence means that nothing has changed */
  checked: Date | undefined

  constructor(key: Uint8Array, print: Uint8Array, seen: Sighting, app: Listener) {
    this.key = key
    this.print = print
    this.#seen = seen
    this.app = app
  }

  get seen(): Sighting {
    return this.#seen
  }

  get epoch(): number {
    return this.#seen.manifest.epoch
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** The first epoch that a lookup has to be of; 0: none is needed. */
  get lostFrom(): number {
    return this.#lost?.from ?? 0
  }

  /** What to keep for the next visit; undefined: it is lost. */
  get mark(): string | undefined {
    return this.isLost ? undefined : writeMark(this.#seen, this.print)
  }

  /** It is here now, and the app hears of it. */
  change(now: Sighting, how: Why | Change['how']): void {
    if (how === 'fork') this.app.noteFork(this.#seen, now)
    else this.app.note(this.#seen, now, how === 'database' ? 'gap' : how)
    this.#seen = now
    this.#lost = undefined
  }

  /** There are two histories. It stays in its own. */
  fork(): void {
    this.app.noteFork(this.#seen, this.#seen)
  }

  /** An update list has brought it to this epoch. */
  step({ contradicts, ...place }: Moved, to: Hashed, shape: Manifest): void {
    const now = { ...to, place, value: valueIn(place, shape) }
    if (contradicts || !isSamePlace(place, this.#seen.place)) this.change(now, contradicts ? 'contradiction' : 'list')
    else this.#seen = now
  }

  /** The lists are read to this epoch: what a lookup has found there is compared. */
  meet(at: Hashed): void {
    const { epoch } = at.manifest
    if (this.isLost || this.epoch !== epoch) return
    if (!equalBytes(this.#seen.hash, at.hash)) this.lose(epoch, 'fork')
    else if (this.#found?.manifest.epoch === epoch) this.answer(this.#found)
  }

  /** A lookup has found this. One of an epoch before is not compared: servers may have been put back. */
  answer(found: Sighting): void {
    const { epoch } = found.manifest
    if (this.#lost !== undefined) {
      if (epoch >= this.#lost.from) this.change(found, this.#lost.why)
    } else if (epoch > this.epoch) {
      this.#found = found
    } else if (epoch === this.epoch) {
      this.#found = undefined
      if (!equalBytes(found.hash, this.#seen.hash)) this.fork()
      else if (!isSamePlace(found.place, this.#seen.place)) this.change(found, 'contradiction')
    }
  }

  /** No list leads from where it is to this epoch. What was found there, or later, will do; not if that may be of another history. */
  lose(from: number, why: Why): void {
    if (this.epoch >= from && why === 'gap') return
    const found = this.#found
    this.#lost = { from, why }
    this.#found = undefined
    if (found !== undefined && why === 'gap') this.answer(found)
  }
}

export function seenAs(mark: Mark, shape: Manifest): Sighting {
  return { ...mark, value: valueIn(mark.place, shape) }
}

/** Undefined: it is absent, or its record is malformed. */
function valueIn({ index, record }: Place, shape: Manifest): Found {
  if (index === undefined || record === undefined) return undefined
  try {
    return decodeRecord(shape, record).value.slice() as Found
  } catch (error) {
    if (error instanceof WireError) return undefined // not passed on: it speaks of a record's contents
    throw error
  }
}

function isSamePlace(a: Place, b: Place): boolean {
  return a.index === b.index && equalBytes(a.record!, b.record!)
}
