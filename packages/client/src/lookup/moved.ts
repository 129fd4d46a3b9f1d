// Where keys are after an update, by its list alone (docs/protocol.md, Updates). A pending query's index never changes
// (docs/protocol.md, What a client must do): if an update has added, moved or deleted the key, the result comes from the list. Another
// query would show that this key was asked for. A watched key asks for none either.

import { updateEntries } from '@keyhush/protocol'
import type { Place } from '../scheme/scheme.js'

export type { Place }

/** What a list has done to a key. */
export interface Moved extends Place {
  /** the list cannot follow on the record before: an honest publisher makes none such */
  readonly contradicts: boolean
}

const UNKNOWN: Place = { index: undefined, record: undefined }

/** Where keys are after `lists`, in order. Unknown: these neither added nor deleted the key, so what was asked for counts. */
export function movedBy(
  lists: readonly Uint8Array[],
  recordBytes: number,
  fingerprints: readonly Uint8Array[],
): readonly Place[] {
  let places: readonly Place[] = fingerprints.map(() => UNKNOWN)
  for (const list of lists) places = placesAfter(list, recordBytes, fingerprints, places)
  return places
}

/** Where several keys are after a list, in their order. It is read once for all. Throws WireError. */
export function placesAfter(
  list: Uint8Array,
  recordBytes: number,
  fingerprints: readonly Uint8Array[],
  places: readonly Place[],
): Moved[] {
  const absent: Place = { index: undefined, record: new Uint8Array(recordBytes) }
  const now: Place[] = places.map(({ index, record }) => ({ index, record: record?.slice() }))
  const added = new Map<number, Place>()
  const wrong = new Set<number>()
  const numbers = [...places.keys()]
  const byIndex = grouped(numbers, i => places[i]!.index)
  const byPrint = grouped(numbers, i => prefixOf(fingerprints[i]!))
  for (const { index, kind, delta } of updateEntries(list, recordBytes)) {
    for (const i of (kind === 'edit' ? byIndex.get(index) : byPrint.get(prefixOf(delta))) ?? []) {
      const before = places[i]!
      if (kind === 'edit') {
        const record = now[i]!.record!
        for (let at = 0; at < recordBytes; at++) record[at]! ^= delta[at]!
        if (!startsWith(record, fingerprints[i]!)) wrong.add(i)
      } else if (startsWith(delta, fingerprints[i]!)) {
        if (kind === 'add') added.set(i, { index, record: delta.slice() })
        else {
          now[i] = absent
          if (index !== before.index || !startsWith(delta, before.record)) wrong.add(i)
        }
      }
    }
  }
  return places.map((before, i) => {
    // A batch may delete a key and add it again: the add counts, wherever in the list it stands.
    const last = added.get(i)
    if (last !== undefined && now[i]!.index !== undefined) wrong.add(i)
    const contradicts = before.record !== undefined && wrong.has(i)
    return { ...(last ?? (contradicts ? absent : now[i]!)), contradicts }
  })
}

function grouped<K>(numbers: readonly number[], keyOf: (i: number) => K): ReadonlyMap<K, readonly number[]> {
  const groups = new Map<K, number[]>()
  for (const i of numbers) groups.set(keyOf(i), [...(groups.get(keyOf(i)) ?? []), i])
  return groups
}

/** The first four bytes, as a number. */
function prefixOf(bytes: Uint8Array): number {
  return bytes[0]! + bytes[1]! * 2 ** 8 + bytes[2]! * 2 ** 16 + bytes[3]! * 2 ** 24
}

function startsWith(bytes: Uint8Array, start: Uint8Array | undefined): boolean {
  return start === undefined || start.every((byte, i) => byte === bytes[i])
}
