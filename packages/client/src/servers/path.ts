// The way from the epoch that a map is at to the one that it should be at (docs/protocol.md, Updates). Any server's manifests will do: each
// names the one before by its hash, so they are right if they end in the target. Nothing secret is sent.

import { equalBytes, LONGEST_MANIFEST_BYTES, type Manifest } from '@keyhush/protocol'
import { checkFollows, decodeManifests } from '@keyhush/protocol/chain'
import type { Core } from '@keyhush/wasm/client'
import { OVER, scoped } from '../base/abort.js'
import { SILENCE_MS, SLOW_MS, slowestMs } from '../base/constants.js'
import { VersionError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import { askOne, sleep } from './ask.js'
import { type Agreed, fromWire, isSame } from './manifests.js'
import type { Following } from './target.js'
import { getBounded, type Link, type Links } from './transport.js'

/** The epoch that a hint or a map is at. */
export interface Base extends Agreed {
  /** whether an update can lead to the next epoch of its generation; missing: it can */
  readonly follows?: (before: Manifest, next: Manifest) => boolean
}

/** An epoch of which only the manifest's hash was saved; undefined: any manifest of it will do. */
export interface Saved {
  readonly manifest: Pick<Manifest, 'databaseId' | 'generation' | 'epoch'>
  readonly hash: Uint8Array | undefined
}

/**
 * No update leads from a hint's epoch to the servers' newest. `history`: the servers no longer keep the epochs between;
 * `generation`: the database has another layout or directory, or has outgrown the hint; `manifest`: it is another database;
 * `spent`: the hint's lookups are used up; `offer`: the servers do not answer it any more.
 */
export class OutdatedError extends Error {
  override readonly name = 'OutdatedError'
  readonly reason: 'history' | 'generation' | 'manifest' | 'spent' | 'offer'

  constructor(reason: OutdatedError['reason']) {
    super(`no update leads to the newest epoch (${reason})`)
    this.reason = reason
  }
}

/** Most manifests, and bytes, of a reply of `/v1/manifests`; a single manifest may be longer. */
const CHAIN_MANIFESTS = 64
const CHAIN_BYTES = 8 * 1024 * 1024

/** Of a reply. */
interface Length {
  /** the probable one */
  readonly bytes: number
  /** called with the bytes of each chunk */
  readonly told: (bytes: number) => void
}

/** The longest reply of `/v1/manifests`, in bytes. */
const LONGEST_CHAIN = Math.max(CHAIN_BYTES, LONGEST_MANIFEST_BYTES)

/** The epochs that updates lead to. */
export interface Path {
  /** those of the base's generation; there may be none */
  readonly path: readonly Agreed[]
  /** what comes behind them: nothing, for they end in the target; more of them; an epoch to which no update leads */
  readonly next: 'target' | 'more' | 'generation'
  /** the epoch after the base's, also of another generation */
  readonly first: Agreed
}

/**
 * The way to the target, which is newer than `base`, and covers it then. Throws OutdatedError if there is none, and the servers' failures if
 * no server says so.
 */
export async function pathTo(
  base: Base | Saved,
  target: Agreed,
  holders: Links,
  following: Following,
  signal: AbortSignal,
): Promise<Path> {
  const { manifest } = target
  if (!equalBytes(manifest.databaseId, base.manifest.databaseId)) throw new OutdatedError('manifest')
  if (manifest.epoch === base.manifest.epoch) throw new OutdatedError('manifest')
  const path = manifest.epoch === base.manifest.epoch + 1 ? nextTo(base, target, following) : undefined
  return withinGeneration(base, target, path ?? (await anyPath(base, target, holders, following, signal)))
}

function nextTo(base: Agreed | Saved, target: Agreed, { core }: Following): readonly Agreed[] {
  if (!canFollow(base, target) || !names(target, base, core)) throw new OutdatedError('manifest')
  return [target]
}

/** Whether this manifest names the one of `before` by its hash. */
function names({ manifest: { previousManifest } }: Agreed, before: Agreed | Saved, core: Core): boolean {
  const hash = 'bytes' in before ? inCore(core, () => core.blake3(before.bytes)) : before.hash
  return hash === undefined || equalBytes(previousManifest, hash)
}

async function anyPath(
  base: Agreed | Saved,
  target: Agreed,
  holders: Links,
  following: Following,
  signal: AbortSignal,
): Promise<readonly Agreed[]> {
  const bytes = Math.min(LONGEST_CHAIN, (target.manifest.epoch - base.manifest.epoch) * target.bytes.length)
  const { clock } = following.links[0]!.environment
  // Once one server has none any more, the others get a moment: a made-up chain may take minutes.
  const moment = Math.min(SLOW_MS + slowestMs(bytes), SILENCE_MS)
  let isOver = false
  const over = new AbortController()
  const from = async (link: Link, signal: AbortSignal, told: (bytes: number) => void) => {
    const path = await pathFrom(link, base, target, { bytes, told }, following, signal)
    if (path !== undefined) return path
    if (!isOver) void sleep(clock, moment, signal).then(() => over.abort(OVER))
    isOver = true
    const expected = 'expected the epochs since that of this map, got none that lead on; call again'
    throw new VersionError(link.server.name, expected)
  }
  // Others may have forgotten less.
  const links = [...new Set([...holders, ...following.links])]
  try {
    return await scoped([signal, over.signal], signal => askOne(links, {}, signal, from))
  } catch (error) {
    throw isOver && !signal.aborted ? new OutdatedError('history') : error
  }
}

/**
 * One server's. It may be made up until it ends in the target, so no more of it is kept than one reply may bring, and it is read no further.
 * Undefined: the server has none, any more or yet.
 */
async function pathFrom(
  link: Link,
  base: Agreed | Saved,
  target: Agreed,
  length: Length,
  { core, pause }: Following,
  signal: AbortSignal,
): Promise<readonly Agreed[] | undefined> {
  const kept: Agreed[] = []
  let keptBytes = 0
  for (let last: Agreed | Saved = base; ; ) {
    const before = last.manifest.epoch
    const piece = await piecesAfter(link, before, length, signal)
    const wanted = piece?.filter(({ manifest: { epoch } }) => epoch > before && epoch <= target.manifest.epoch) ?? []
    const endsEarly = wanted.length < target.manifest.epoch - before
    if (endsEarly && piece?.some(({ manifest }) => manifest.epoch <= before)) throw ofTwoAges(link) // a file
    if (!canLead(last, wanted, target)) return undefined // before any of it is hashed
    for (const next of wanted) {
      if (!names(next, last, core)) return undefined
      await pause() // in JavaScript a long manifest takes milliseconds
      signal.throwIfAborted()
      last = next
      keptBytes += next.bytes.length
      if (keptBytes <= LONGEST_CHAIN) kept.push(isSame(next, target) ? target : next)
    }
    if ('bytes' in last && isSame(last, target)) return kept
    if (!isFull(wanted, target)) return undefined // else it could come an epoch at a time
  }
}

/** Undefined: the server no longer keeps them, or is behind. A file has more: it begins where it begins. */
export async function piecesAfter(
  link: Link,
  since: number,
  { bytes, told }: Partial<Length>,
  signal: AbortSignal,
): Promise<readonly Agreed[] | undefined> {
  try {
    const chain = await getBounded(link, `/v1/manifests?since=${since}`, LONGEST_CHAIN, signal, bytes, told)
    return fromWire(link, () => decodeManifests(chain, CHAIN_MANIFESTS))
  } catch (error) {
    if (error instanceof VersionError && error.newest !== undefined) return undefined
    throw error
  }
}

/** The error of a folder whose files are not of one age (docs/protocol.md, Without a server). */
export function ofTwoAges({ server }: Link): VersionError {
  const came = 'got an older copy of some: its host or a cache still has them'
  return new VersionError(server.name, `expected files of one epoch, ${came}; call again`, { retryable: true })
}

/** Whether these, which can come one after the other, go on from `base` and can lead to the target. */
function canLead(base: Agreed | Saved, piece: readonly Agreed[], target: Agreed): boolean {
  const [first, last] = [piece[0], piece.at(-1)]
  if (first === undefined || last === undefined || !canFollow(base, first)) return false
  const { generation, partitions } = target.manifest
  const isBefore = ({ manifest }: Agreed) =>
    manifest.generation < generation || (manifest.generation === generation && manifest.partitions <= partitions)
  if (!piece.every(isBefore)) return false
  return last.manifest.epoch < target.manifest.epoch || isSame(last, target)
}

function canFollow(before: Agreed | Saved, { manifest: next }: Agreed): boolean {
  try {
    if ('bytes' in before) checkFollows(before.manifest, next)
    return next.epoch === before.manifest.epoch + 1
  } catch {
    return false
  }
}

/** Whether a server gives as much at once, of a chain that is not at its end. */
function isFull(piece: readonly Agreed[], target: Agreed): boolean {
  const bytes = piece.reduce((sum, { bytes }) => sum + bytes.length, 0)
  const longest = Math.max(...[...piece, target].map(({ bytes }) => bytes.length))
  return piece.length >= CHAIN_MANIFESTS || bytes + longest > CHAIN_BYTES
}

function withinGeneration(base: Base | Saved, target: Agreed, path: readonly Agreed[]): Path {
  const end = path.findIndex(({ manifest }, i) => {
    const { manifest: before } = path[i - 1] ?? base
    if (manifest.generation !== before.generation) return true
    return 'follows' in base && base.follows?.(before as Manifest, manifest) === false
  })
  const first = path[0]!
  if (end >= 0) return { path: path.slice(0, end), next: 'generation', first }
  return { path, next: path.at(-1) === target ? 'target' : 'more', first }
}
