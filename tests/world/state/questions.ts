// What an app asks, and what the right answer is: looked up in the plain database.

import type { KeyhushMap } from '@keyhush/client'
import type { Chance } from '../chance.js'
import { ALL_KEYS, type Database, indexOfKey, RECORDS, valueAt, valueOfKey } from './databases.js'

type Values = readonly (Uint8Array | undefined)[]

export interface Question {
  /** for the trace */
  readonly what: string
  /** the records to be looked up, in order */
  readonly indices: readonly number[]
  /** queries on the wire: as many as there are indices, or more */
  readonly queries: number
  ask(map: KeyhushMap, signal: AbortSignal): Promise<Values>
  answer(database: Database): Values
}

export function at(index: number): Question {
  return {
    what: `at ${index}`,
    indices: [index],
    queries: 1,
    ask: async (map, signal) => [await map.at(index, { signal })],
    answer: database => [valueAt(database, index)],
  }
}

export function getMany(keys: readonly string[], padTo: number): Question {
  return {
    what: `get ${keys.join(', ')} (${padTo})`,
    indices: keys.map(indexOfKey),
    queries: padTo,
    ask: (map, signal) => map.getMany(keys, { padTo, signal }),
    answer: database => keys.map(key => valueOfKey(database, key)),
  }
}

/** Mostly one record, often one that was asked for before. */
export function anyQuestion(chance: Chance): Question {
  if (chance.happens(0.6)) return at(chance.happens(0.5) ? chance.below(4) : chance.below(RECORDS))
  const keys = Array.from({ length: chance.between(1, 3) }, () => chance.pick(ALL_KEYS))
  return getMany(keys, keys.length + chance.below(2))
}
