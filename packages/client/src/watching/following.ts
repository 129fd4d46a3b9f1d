// Follows the lists that some servers have, as far as they lead (docs/protocol.md, Updates). Nothing here knows any key.

import { equalBytes, type Manifest } from '@keyhush/protocol'
import { readList } from '@keyhush/wasm/update-list'
import { abortable, scoped } from '../base/abort.js'
import { SLOW_MS } from '../base/constants.js'
import { KeyhushError, ProtocolError, ServerError } from '../base/errors.js'
import { askAll, inTime } from '../servers/ask.js'
import { lookAt } from '../servers/folder.js'
import type { Agreed } from '../servers/manifests.js'
import { OutdatedError, pathTo, type Saved } from '../servers/path.js'
import type { RecentLists } from '../servers/recent-lists.js'
import type { Following, Looking, Target } from '../servers/target.js'
import type { Link, Links } from '../servers/transport.js'
import { type Step, withLists } from '../servers/update-lists.js'
import type { How } from '../state/newest.js'
import type { Why } from './watched.js'

/** An epoch to which no list leads. */
export interface Elsewhere {
  readonly at: Agreed
  readonly why: Why
}

/** `there`: they have nothing newer. */
type Outcome = 'moved' | 'there' | Elsewhere

/** How to follow. `late`: what a server shows that was waited for no longer; it alone is followed then. */
export type Errand = How & { readonly late?: Target }

/** Who follows. */
export interface Reader {
  follow(errand: Errand): Promise<void>
  /** where it has read to; moved by `take` and `arrive` */
  readonly base: Agreed | Saved
  /** of its manifest */
  readonly hash: Uint8Array
  /** reads a list that leads on */
  take(step: Step): void
  /** learns where these servers are, with a publisher's key the newest that is signed */
  shown?(at: Agreed): void
  /** learns a manifest of the epoch that it is at; returns whether it is the one */
  arrive(at: Agreed): boolean
}

/** What came of following. */
interface Outcomes {
  /** with a publisher's key one of each server that could be followed. Undefined: another database, where maps stay */
  readonly outcomes: readonly (Outcome | undefined)[]
  /** those to which no list leads, the newest first */
  readonly apart: readonly Elsewhere[]
  /** the first tells most */
  readonly failures: readonly KeyhushError[]
}

/** Servers at which a look is under way that nothing cuts. */
const lookedAt = new WeakSet<Link>()

/**
 * Follows servers: with a publisher's key each by itself, as far as its epochs are signed. All are asked at once what they show, and what one
 * does not send another gives, so one that is silent holds up no other. `most`: bytes of lists, by their manifests. `from`: the server that is
 * followed first, and alone if its lists lead on; once it is late, beside the others. One that is waited for no longer is followed when it has
 * replied: those that came before may be behind for ever.
 */
export async function followServers(
  reader: Reader,
  following: Following,
  { late, ...looking }: Looking & Errand,
  recent: RecentLists,
  most: number,
  signal: AbortSignal,
  from?: Link,
): Promise<Outcomes> {
  const { links, signing } = following
  const outcomes: (Outcome | undefined)[] = []
  const failures: KeyhushError[] = []
  const failed = (error: unknown) => {
    if (error instanceof KeyhushError) failures.push(error)
    else if (!signal.aborted) throw error
  }
  const look = (only: Link | undefined, signal: AbortSignal) => {
    const { base } = reader
    return lookAt(following, 'bytes' in base ? base : undefined, { ...looking, only }, signal)
  }
  let isOver = false
  /** Of several looks at a server, the first lasts. */
  const lookAtOne = (link: Link, over: AbortSignal) => {
    const lasts = !lookedAt.has(link)
    lookedAt.add(link)
    const asked = look(link, lasts ? signal : over)
    const ended = () => lasts && lookedAt.delete(link)
    const followed = asked.finally(ended).then(async late => {
      if (isOver) await reader.follow({ late })
    })
    followed.catch(() => {}) // the next line, or sync(), tries again
    return asked
  }
  const follow = (target: Target) =>
    readTo(reader, target, following, recent, most, signal).then(outcome => outcomes.push(outcome))
  const followEach = async (over: AbortSignal) => {
    const first = links.find(({ server }) => server === from?.server)
    const alone = first && lookAtOne(first, over)
    const early = alone && (await inTime(first.environment.clock, SLOW_MS, alone).catch(() => {}))
    let { patient } = looking
    if (early) await follow(early).catch(failed)
    else if (first) {
      first.standing.note(first, 'late')
      patient = false // else who was silent before would get two seconds more
    }
    const left = early ? links.filter(link => link !== first) : links
    if (left.length === 0 || outcomes[0] === 'moved') return
    const tried = (link: Link, signal: AbortSignal) =>
      abortable((link === first && alone) || lookAtOne(link, over), signal).catch(error => {
        if (error instanceof ServerError) throw error
        failed(error)
        throw new ProtocolError(link.server.name, error.message) // else others would have little time beside its reply
      })
    const targets = await askAll(left, { patient, enough: 1, once: true }, signal, tried).catch(failed)
    isOver = true
    for (const target of targets ?? []) if (target) await follow(target).catch(failed)
  }
  if (late) await follow(late).catch(failed)
  else if (signing) await scoped([signal], followEach)
  else await look(undefined, signal).then(follow).catch(failed)
  const apart = outcomes.filter(outcome => typeof outcome === 'object')
  return { outcomes, apart: apart.sort((a, b) => b.at.manifest.epoch - a.at.manifest.epoch), failures }
}

/** Throws the failures of servers. */
async function readTo(
  reader: Reader,
  { at, holders }: Target,
  following: Following,
  recent: RecentLists,
  most: number,
  signal: AbortSignal,
): Promise<Outcome | undefined> {
  const { epoch, databaseId } = reader.base.manifest
  if (at === undefined) return 'there'
  reader.shown?.(at)
  if (!equalBytes(at.manifest.databaseId, databaseId)) {
    // A publisher's key holds maps to their database, and one server alone may show another one of the publisher's.
    return following.signing === undefined ? { at, why: 'database' } : undefined
  }
  if (at.manifest.epoch < epoch) return 'there'
  if (at.manifest.epoch === epoch) return reader.arrive(at) ? 'there' : { at, why: 'fork' }
  for (let loaded = 0; reader.base.manifest.epoch < at.manifest.epoch; ) {
    const path = await pathFrom(reader, at, holders, following, signal)
    if (path === undefined) return { at, why: 'fork' }
    loaded += path.reduce((sum, { manifest }) => sum + manifest.updateListBytes, 0)
    if (path.length === 0 || loaded > most) return { at, why: 'gap' }
    for (const step of await withLists(path, holders, following, recent, signal)) {
      if (!leadsOn(step.list, reader.base.manifest, step.manifest)) return { at, why: 'gap' }
      reader.take(step)
    }
  }
  return 'moved'
}

/** Whether a list is well-formed. After a mark the sizes before are those that the list names. */
export function leadsOn(list: Uint8Array, before: Saved['manifest'] | Manifest, after: Manifest): boolean {
  const number = (at: number) => new DataView(list.buffer, list.byteOffset).getUint32(at, true)
  const sizes = 'records' in before ? before : { ...after, records: number(8), partitions: number(12) }
  return typeof readList(list, sizes, after) !== 'string'
}

/**
 * The epochs that lists lead to; none, if servers have no more of them; undefined, if they have another history. The target vouches for all
 * that come, so their first one says which epoch was before.
 */
async function pathFrom(
  { base, hash }: Reader,
  at: Agreed,
  holders: Links,
  following: Following,
  signal: AbortSignal,
): Promise<readonly Agreed[] | undefined> {
  const any = { manifest: base.manifest, hash: undefined }
  try {
    const { path, first } = await pathTo(any, at, holders, following, signal)
    return equalBytes(first.manifest.previousManifest, hash) ? path : undefined
  } catch (error) {
    if (error instanceof OutdatedError) return []
    throw error
  }
}
