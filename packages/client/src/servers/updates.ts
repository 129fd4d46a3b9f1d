// Which epochs follow one (docs/protocol.md, Updates), checked by both servers, by hashes and by the publisher's signature. Nothing
// secret is sent.

import {
  checkFollows,
  decodeManifests,
  equalBytes,
  LONGEST_MANIFEST_BYTES,
  type Manifest,
  type NewestEvent,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { scoped } from '../base/abort.js'
import { deadlineMs } from '../base/constants.js'
import { VersionError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import { type Agreed, agree, disagree, fromWire, newestOf } from './manifests.js'
import { askSome, withRetry } from './retry.js'
import type { Publisher } from './signatures.js'
import type { StatsKeeper } from './stats.js'
import { getBounded, type Link, type Links } from './transport.js'

/** The epoch that a hint or a map is at. */
export interface Base extends Agreed {
  /** whether an update can lead to the next epoch of its generation; missing: it can */
  readonly follows?: (before: Manifest, next: Manifest) => boolean
}

/** What is needed to follow. */
export interface Following {
  readonly core: Core
  readonly links: Links
  /** how many of them have to agree */
  readonly atLeast: number
  /** undefined: the servers' agreement suffices */
  readonly publisher: Publisher | undefined
  readonly stats: StatsKeeper
}

/**
 * No update leads from a hint's epoch to the servers' newest. `history`: the servers no longer keep the epochs between;
 * `generation`: the database has another layout or directory, or has outgrown the hint; `manifest`: it is another database;
 * `spent`: the hint's lookups are used up.
 */
export class OutdatedError extends Error {
  override readonly name = 'OutdatedError'
  readonly reason: 'history' | 'generation' | 'manifest' | 'spent'

  constructor(reason: OutdatedError['reason']) {
    super(`no update leads to the newest epoch (${reason})`)
    this.reason = reason
  }
}

/** Most manifests, and bytes, of a reply of `/v1/manifests`; a single manifest may be longer. */
const CHAIN_MANIFESTS = 64
const CHAIN_BYTES = 8 * 1024 * 1024

/** The longest reply of `/v1/manifests`, in bytes. */
const LONGEST_CHAIN = Math.max(CHAIN_BYTES, LONGEST_MANIFEST_BYTES)

/**
 * The epochs after `base` that both servers have, and that are signed if the map asks for that, in order. There may be more: ask
 * again from the last. Throws OutdatedError, ServersDisagreeError, SignatureError and the errors of single servers.
 */
export async function epochsAfter(base: Base, following: Following, signal: AbortSignal): Promise<readonly Agreed[]> {
  const { links, atLeast, publisher } = following
  const replies = await askSome(links, atLeast, signal, (link, signal) => chainFrom(link, base, signal))
  const chains = replies.map(chain => chain ?? 'forgotten')
  const told = chains.filter(chain => chain !== 'forgotten')
  const all = atLeast === links.length && told.length === chains.length
  const agreed = all ? commonOf(following, base, told) : await upToAgreed(following, base, chains, signal)
  const common = withinGeneration(base, agreed)
  return publisher === undefined ? common : await publisher.signedOf(common, links, signal)
}

/** The epochs after `base` that are in all chains. */
function commonOf({ core, links }: Following, base: Agreed, chains: readonly (readonly Agreed[])[]): Agreed[] {
  const common: Agreed[] = []
  const [first, ...others] = chains
  for (const [i, next] of first!.slice(0, Math.min(...chains.map(({ length }) => length))).entries()) {
    // Each epoch's manifest names an update list of its own, so each is compared.
    if (others.some(other => !equalBytes(next.bytes, other[i]!.bytes))) {
      throw disagree(links, 'their manifests of one epoch differ')
    }
    const expected = i === 0 ? equalBytes(next.bytes, base.bytes) : continues(core, common.at(-1) ?? base, next)
    if (!expected) throw new OutdatedError('manifest')
    if (i > 0) common.push(next)
  }
  return common
}

/**
 * The epochs after `base`, if one server has forgotten those between, or lies that it has. A manifest names the one before by its
 * hash, so the other server's chain is right if it ends in the newest manifest that both have. Until then it may be made up, so no more
 * of it is kept than one reply may bring: the first epochs, and the last one read. Throws OutdatedError if there is no such chain.
 */
async function upToAgreed(
  { core, links, atLeast }: Following,
  base: Agreed,
  chains: readonly (readonly Agreed[] | 'forgotten')[],
  signal: AbortSignal,
): Promise<Agreed[]> {
  const newest = await agree(links, signal, atLeast)
  if (equalBytes(newest.bytes, base.bytes)) return []
  const same = equalBytes(newest.manifest.databaseId, base.manifest.databaseId)
  if (same && newest.manifest.epoch < base.manifest.epoch) return [] // a server is behind the client
  if (!same || newest.manifest.epoch === base.manifest.epoch) throw new OutdatedError('manifest')
  const upTo = async (link: Link, chain: readonly Agreed[] | 'forgotten', signal: AbortSignal) => {
    const { clock } = link.environment
    const start = clock.now()
    const kept: Agreed[] = []
    let keptBytes = 0
    let last = base
    // A long chain comes in pieces. The first may be older than `newest`: another server's may have come late.
    for (let [piece, first] = [chain, true]; piece !== 'forgotten'; first = false) {
      const before = last
      for (const next of linkedTo(core, last, piece)) {
        if (!canLeadTo(newest.manifest, next.manifest)) break
        last = next
        keptBytes += next.bytes.length
        if (keptBytes <= LONGEST_CHAIN) kept.push(next)
        if (equalBytes(next.bytes, newest.bytes)) return kept
      }
      if (last === before || !(first || isFull(piece, newest)) || clock.now() - start > deadlineMs(keptBytes)) break
      const from = (link: Link, signal: AbortSignal) => chainFrom(link, last, signal)
      const [more] = await askSome([link], atLeast < links.length ? 0 : 1, signal, from)
      piece = more ?? 'forgotten'
    }
    return undefined
  }
  const all = chains.map((chain, s) => (signal: AbortSignal) => upTo(links[s]!, chain, signal))
  const found = await scoped([signal], async signal => {
    if (atLeast < links.length) return await firstOf(all.map(one => one(signal))) // else a chain that is made up could hold up the others
    for (const one of all) {
      const found = await one(signal)
      if (found !== undefined) return found
    }
    return undefined
  })
  if (found !== undefined) return found
  throw new OutdatedError('history')
}

/**
 * Whether a server gives as much at once, of a chain that leads to `newest` and is not at its end. Else it could give a chain an epoch at
 * a time, without end.
 */
function isFull(piece: readonly Agreed[], newest: Agreed): boolean {
  const bytes = piece.reduce((sum, { bytes }) => sum + bytes.length, 0)
  const longest = Math.max(...[...piece, newest].map(({ bytes }) => bytes.length))
  return piece.length >= CHAIN_MANIFESTS || bytes + longest > CHAIN_BYTES
}

/** The first that is not undefined; undefined if none is. */
function firstOf<T>(all: readonly Promise<T | undefined>[]): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const found = (one: T | undefined) => {
      if (one !== undefined) resolve(one)
    }
    Promise.all(all.map(one => one.then(found))).then(() => resolve(undefined), reject)
  })
}

/** Whether an epoch can come before `newest`, or be it. A new generation with fewer partitions is treated as if it could not. */
function canLeadTo(newest: Manifest, { epoch, generation, partitions }: Manifest): boolean {
  return epoch <= newest.epoch && generation <= newest.generation && partitions <= newest.partitions
}

/** The part of a chain that leads on from `base`, with which the chain begins. */
function linkedTo(core: Core, base: Agreed, [first, ...rest]: readonly Agreed[]): Agreed[] {
  const linked: Agreed[] = []
  if (first === undefined || !equalBytes(first.bytes, base.bytes)) return linked
  for (const next of rest) {
    if (!continues(core, linked.at(-1) ?? base, next)) break
    linked.push(next)
  }
  return linked
}

/** The epochs that updates lead to. Throws OutdatedError if no update leads to the first. */
function withinGeneration(base: Base, chain: readonly Agreed[]): readonly Agreed[] {
  const end = chain.findIndex(({ manifest }, i) => {
    const { manifest: before } = chain[i - 1] ?? base
    return manifest.generation !== before.generation || base.follows?.(before, manifest) === false
  })
  if (end === 0) throw new OutdatedError('generation')
  return end < 0 ? chain : chain.slice(0, end)
}

/** Whether a server has an epoch after `base`, or another database. Asks that server alone, for one manifest. */
export async function hasMore(link: Link, { manifest }: Agreed, signal: AbortSignal): Promise<boolean> {
  const newest = await newestOf(link, signal)
  return isNews(newest.manifest, manifest)
}

/** Whether there is something to follow for a map at this manifest: a later epoch, or another database. */
export function isNews(newest: NewestEvent, { databaseId, epoch }: Manifest): boolean {
  return newest.epoch > epoch || !equalBytes(newest.databaseId, databaseId)
}

/** A server's manifests from `base` on, `base` first; none if the server is behind. `forgotten`: it no longer keeps them. */
async function chainFrom(link: Link, base: Agreed, signal: AbortSignal): Promise<Agreed[] | 'forgotten'> {
  const { epoch } = base.manifest
  const path = `/v1/manifests?since=${epoch - 1}`
  try {
    const chain = await withRetry(link, signal, () => getBounded(link, path, LONGEST_CHAIN, signal))
    return fromWire(link, () => decodeManifests(chain, CHAIN_MANIFESTS))
  } catch (error) {
    if (!(error instanceof VersionError) || error.newest === undefined) throw error
    return error.newest.epoch < epoch ? [] : 'forgotten'
  }
}

/** Whether `next` names `base` as the epoch before it and keeps the rules of a generation. */
function continues(core: Core, base: Agreed, next: Agreed): boolean {
  try {
    checkFollows(base.manifest, next.manifest)
  } catch {
    return false
  }
  const hash = inCore(core, () => core.blake3(base.bytes))
  return equalBytes(next.manifest.previousManifest, hash)
}
