// What apps ask of a database whose keys stay: mostly one record, often one that was asked for before.

import type { Chance } from '../chance.js'
import { at, getMany, type Question } from '../questions.js'
import { ALL_KEYS, indexOfKey, RECORDS } from './databases.js'

export function anyQuestion(chance: Chance): Question {
  if (chance.happens(0.6)) return at(chance.happens(0.5) ? chance.below(4) : chance.below(RECORDS))
  const keys = Array.from({ length: chance.between(1, 3) }, () => chance.pick(ALL_KEYS))
  return getMany(keys, keys.length + chance.below(2))
}

/** The records to be looked up, in order. */
export function indicesOf({ index, keys }: Question): readonly number[] {
  return index === undefined ? keys.map(indexOfKey) : [index]
}
