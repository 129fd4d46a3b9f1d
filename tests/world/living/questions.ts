// What apps ask of a database that changes: mostly what was changed lately, and in the end everything.

import type { Chance } from '../chance.js'
import { at, get, getMany, has, type Question } from '../questions.js'
import type { Batches } from './batches.js'
import type { Version } from './model.js'

/** Mostly about what was changed lately. `version`: what the map that is asked is at. */
export function anyQuestion(chance: Chance, version: Version, batches: Batches): Question {
  if (!version.shape.keyed || chance.happens(0.15)) return at(anyIndex(chance, version, batches))
  const key = () => anyKey(chance, version, batches)
  const kind = chance.below(4)
  if (kind === 0) return has(key())
  if (kind < 3) return get(key())
  const keys = Array.from({ length: chance.between(1, 5) }, key)
  return getMany(keys, keys.length + chance.below(3))
}

/** All present and former keys, or `most` of the indices, which are looked up one by one. */
export function everyQuestion(chance: Chance, version: Version, batches: Batches, most: number): readonly Question[] {
  const { keyed } = version.shape
  const indices = Array.from(version.slots.keys())
  if (!keyed) return shuffled(chance, indices).slice(0, most).map(at)
  const keys = shuffled(chance, [...new Set([...version.keys, ...batches.deleted, 'nobody', 'nowhere'])])
  const groups = Array.from({ length: Math.ceil(keys.length / 32) }, (_, i) => keys.slice(32 * i, 32 * (i + 1)))
  return [
    ...groups.map(group => getMany(group, group.length)),
    ...shuffled(chance, indices).slice(0, 12).map(at),
    ...indices
      .filter(index => version.at(index) === undefined)
      .slice(0, 6)
      .map(at),
  ]
}

function anyIndex(chance: Chance, { size }: Version, { recent }: Batches): number {
  const indices = recent.filter((index): index is number => typeof index === 'number' && index < size)
  return indices.length > 0 && chance.happens(0.6) ? chance.pick(indices) : chance.below(size)
}

function anyKey(chance: Chance, version: Version, { recent, deleted }: Batches): string {
  const keys = recent.filter((key): key is string => typeof key === 'string')
  if (keys.length > 0 && chance.happens(0.6)) return chance.pick(keys)
  if (deleted.length > 0 && chance.happens(0.2)) return chance.pick(deleted)
  return chance.happens(0.1) ? `nobody ${chance.below(5)}` : chance.pick(version.keys)
}

function shuffled<T>(chance: Chance, all: readonly T[]): T[] {
  const left = [...all]
  for (let i = left.length - 1; i > 0; i--) {
    const k = chance.below(i + 1)
    ;[left[i], left[k]] = [left[k]!, left[i]!]
  }
  return left
}
