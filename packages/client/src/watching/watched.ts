// A watched key: where it was seen last, and what its app is to be told.

import { decodeRecord, equalBytes, type Manifest, WireError } from '@keyhush/protocol'
import type { Moved, Place } from '../lookup/moved.js'
import type { Found } from '../lookup/question.js'
import type { Agreed } from '../servers/manifests.js'
import { type Mark, writeMark } from './marks.js'
import type { Change, OnChange } from './watch.js'

/** An epoch, and the hash of its manifest. */
export interface Hashed {
  readonly manifest: Pick<Manifest, 'databaseId' | 'generation' | 'epoch'>
  readonly hash: Uint8Array
}

/** A key at an epoch. */
export interface Sighting extends Hashed {
  readonly place: Place
  readonly value: Found
}

/** Why no list leads from a sighting to where the lists are read now. */
export type Why = 'gap' | 'contradiction'

export class Watched {
  readonly key: Uint8Array
  readonly print: Uint8Array
  #seen: Sighting
  /** what a lookup says of a later epoch, until the lists lead there */
  #found: Sighting | undefined
  /** from which epoch on it has to be looked up, and why */
  #lost: { readonly from: number; readonly why: Why } | undefined
  /** until when silence means that nothing has changed */
  checked: Date | undefined
  /** undefined: nobody listens */
  onChange: OnChange | undefined
  save: ((mark: string) => void) | undefined
  /** whether the app has its watch: it is told nothing before */
  isOpen = false
  #changes: Change[] = []
  #hasToldFork = false
  #saved: string | undefined

  constructor(
    key: Uint8Array,
    print: Uint8Array,
    seen: Sighting,
    { onChange, save }: Pick<Watched, 'onChange' | 'save'>,
  ) {
    this.key = key
    this.print = print
    this.#seen = seen
    this.onChange = onChange
    this.save = save
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

  /** It is here now, and the app hears of it. */
  change(now: Sighting, how: Change['how']): void {
    this.#say(now, how)
    this.#seen = now
    this.#lost = undefined
  }

  /** There are two histories, as if the publisher had signed two manifests of one epoch. Told once. */
  fork(): void {
    if (!this.#hasToldFork) this.#say(this.#seen, 'contradiction')
    this.#hasToldFork = true
  }

  #say({ value, manifest }: Sighting, how: Change['how']): void {
    this.#changes.push({ value: value?.slice(), before: this.#seen.value?.slice(), epoch: manifest.epoch, how })
  }

  /** An update list has brought it to this epoch. */
  step({ contradicts, ...place }: Moved, to: Hashed, shape: Manifest): void {
    const { manifest, hash } = to
    const now = { manifest, hash, place, value: valueIn(place, shape) }
    if (contradicts || !isSamePlace(place, this.#seen.place)) this.change(now, contradicts ? 'contradiction' : 'list')
    else this.#seen = now
  }

  /** The lists are read to this epoch: what a lookup has found there is compared. */
  meet(at: Hashed): void {
    const { epoch } = at.manifest
    if (this.#lost !== undefined || this.epoch !== epoch) return
    if (!equalBytes(this.#seen.hash, at.hash)) this.lose(epoch, 'contradiction', true)
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
  lose(from: number, why: Why, isOther: boolean): void {
    if (this.epoch >= from && !isOther) return
    const found = this.#found
    this.#lost = { from, why }
    this.#found = undefined
    if (found !== undefined && !isOther) this.answer(found)
  }

  /** Whether the app has heard of all changes. */
  get isTold(): boolean {
    return this.#changes.length === 0
  }

  /** The next change that the app has not heard of. */
  nextChange(): Change | undefined {
    return this.#changes.shift()
  }

  /** What to keep for the next visit; undefined: what was given last. */
  nextMark(): string | undefined {
    if (this.isLost) return undefined
    const mark = writeMark(this.#seen, this.print)
    if (mark === this.#saved) return undefined
    this.#saved = mark
    return mark
  }
}

/** What a lookup at an epoch says of a key. */
export function sightingOf({ manifest }: Agreed, hash: Uint8Array, place: Place): Sighting {
  return { manifest, hash, place, value: valueIn(place, manifest) }
}

export function markedBy(mark: Mark, shape: Manifest): Sighting {
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
