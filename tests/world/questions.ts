// What an app asks, and what the plain database says to it.

import type { KeyhushMap } from '@keyhush/client'

/** A database at one epoch, as anybody would write it down. */
export interface Plain {
  at(index: number): Uint8Array | undefined
  get(key: string): Uint8Array | undefined
}

type Answer = readonly (Uint8Array | boolean | undefined)[]

export interface Question {
  /** for the trace */
  readonly what: string
  /** none if it is about an index */
  readonly keys: readonly string[]
  /** none if it is about keys */
  readonly index?: number
  /** on the wire: as many as there are records, or more */
  readonly queries: number
  ask(map: KeyhushMap, signal: AbortSignal): Promise<Answer>
  answer(database: Plain): Answer
}

export function at(index: number): Question {
  return {
    what: `at ${index}`,
    keys: [],
    index,
    queries: 1,
    ask: async (map, signal) => [await map.at(index, { signal })],
    answer: database => [database.at(index)],
  }
}

export function get(key: string): Question {
  return {
    what: `get ${key}`,
    keys: [key],
    queries: 1,
    ask: async (map, signal) => [await map.get(key, { signal })],
    answer: database => [database.get(key)],
  }
}

export function has(key: string): Question {
  return {
    what: `has ${key}`,
    keys: [key],
    queries: 1,
    ask: async (map, signal) => [await map.has(key, { signal })],
    answer: database => [database.get(key) !== undefined],
  }
}

export function getMany(keys: readonly string[], padTo: number): Question {
  return {
    what: `get ${keys.join(', ')} (${padTo})`,
    keys,
    queries: padTo,
    ask: (map, signal) => map.getMany(keys, { padTo, signal }),
    answer: database => keys.map(key => database.get(key)),
  }
}
