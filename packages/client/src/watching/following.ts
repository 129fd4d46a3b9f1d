// Follows the lists that some servers have, as far as they lead (docs/protocol.md, Updates). Nothing here knows any key.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import { readList } from '@keyhush/wasm/update-list'
import { lookAt } from '../servers/folder.js'
import type { Agreed } from '../servers/manifests.js'
import { isSame } from '../servers/manifests.js'
import { OutdatedError, pathTo, type Saved } from '../servers/path.js'
import type { RecentLists } from '../servers/recent-lists.js'
import type { Following, Looking } from '../servers/target.js'
import type { Links } from '../servers/transport.js'
import { type Step, withLists } from '../servers/update-lists.js'
import type { Why } from './watched.js'

/** An epoch to which no list leads. */
export interface Elsewhere {
  readonly at: Agreed
  readonly why: Why
  /** whether it is not of the history before: one of another database, or another one of this */
  readonly isOther: boolean
}

/** `there`: they have nothing newer. */
export type Outcome = 'moved' | 'there' | Elsewhere

/** Who follows. */
export interface Reader {
  /** where it has read to; moved by `take` and `arrive` */
  readonly base: Agreed | Saved
  hashOf(manifest: Agreed): Uint8Array
  /** reads a list that leads on */
  take(step: Step): void
  /** learns the manifest of the epoch that it is at */
  arrive(at: Agreed): void
}

/** Throws the failures of servers. Undefined: another database, where maps stay. `most`: bytes of lists, by their manifests. */
export async function followLists(
  reader: Reader,
  following: Following,
  looking: Looking,
  recent: RecentLists,
  most: number,
  signal: AbortSignal,
): Promise<Outcome | undefined> {
  for (let [loaded, outcome]: [number, Outcome] = [0, 'there']; ; outcome = 'moved') {
    const { base } = reader
    const { epoch, databaseId } = base.manifest
    const known = 'bytes' in base ? base : undefined
    const { at, holders } = await lookAt(following, known, { ...looking, notBefore: epoch }, signal)
    if (at === undefined) return outcome
    if (!equalBytes(at.manifest.databaseId, databaseId)) {
      // A publisher's key holds maps to their database, and one server alone may show another one of the publisher's.
      return following.signing === undefined ? { at, why: 'gap', isOther: true } : undefined
    }
    if (at.manifest.epoch < epoch) return outcome
    if (at.manifest.epoch === epoch) {
      const isThis = known === undefined ? equalBytes((base as Saved).hash!, reader.hashOf(at)) : isSame(known, at)
      if (!isThis) return { at, why: 'contradiction', isOther: true }
      reader.arrive(at)
      return outcome
    }
    const path = await pathFrom(base, at, holders, following, signal)
    if (path === undefined) return { at, why: 'contradiction', isOther: true }
    loaded += path.reduce((sum, { manifest }) => sum + manifest.updateListBytes, 0)
    if (path.length === 0 || loaded > most) return { at, why: 'gap', isOther: false }
    for (const step of await withLists(path, following, recent, signal)) {
      if (!leadsOn(step.list, reader.base.manifest, step.manifest)) return { at, why: 'gap', isOther: false }
      reader.take(step)
    }
  }
}

/** Whether a list is well-formed. After a mark the sizes before are those that the list names. */
export function leadsOn(list: Uint8Array, before: Saved['manifest'] | Manifest, after: Manifest): boolean {
  const number = (at: number) => new DataView(list.buffer, list.byteOffset).getUint32(at, true)
  const sizes = 'records' in before ? before : { ...after, records: number(8), partitions: number(12) }
  return typeof readList(list, sizes, after) !== 'string'
}

/** The epochs that lists lead to; none, if servers have no more of them; undefined, if they have another history. */
async function pathFrom(
  base: Agreed | Saved,
  at: Agreed,
  holders: Links,
  following: Following,
  signal: AbortSignal,
): Promise<readonly Agreed[] | undefined> {
  const isAny = async () => {
    const { databaseId, generation, epoch } = base.manifest
    await pathTo({ manifest: { databaseId, generation, epoch }, hash: undefined }, at, holders, following, signal)
    return undefined
  }
  const none = (error: unknown) => {
    if (error instanceof OutdatedError) return []
    throw error
  }
  try {
    return (await pathTo(base, at, holders, following, signal)).path
  } catch (error) {
    if (!(error instanceof OutdatedError)) throw error
    return await isAny().catch(none)
  }
}
