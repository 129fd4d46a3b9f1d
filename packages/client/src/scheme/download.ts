// Downloads the directory and all partitions, shared out among the servers. The agreed manifest has a hash of every blob, so that any
// server may send it. Nothing secret is sent, so all of this may be aborted at any time.

import { contentHash, equalBytes, type Manifest, partitionBytes, toHex } from '@keyhush/protocol'
import type { Core, DirectoryHandle, Lanes } from '@keyhush/wasm/client'
import { OVER, scoped, together } from '../base/abort.js'
import { SLOW_MS, WORK_BYTES } from '../base/constants.js'
import { ProtocolError, ServerError, TamperedError } from '../base/errors.js'
import { shuffled } from '../base/random.js'
import { coreCode, hintsOf, inCore, release } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { withDirectoryShape } from '../platform/layout.js'
import { askOne, Pace, repeated, sleep } from '../servers/ask.js'
import { worstOf } from '../servers/failures.js'
import { namesOf } from '../servers/parties.js'
import { getBlob, getWholeBlob, type Link, type Sink } from '../servers/transport.js'
import type { SchemeContext, Sources } from './scheme.js'

/** Partitions that a hint or a copy receives at the same time. */
const LANES = 2

/** Bytes of all partitions. */
export function databaseBytes(manifest: Manifest): number {
  return manifest.partitions * partitionBytes(manifest)
}

/** Bytes of a download of the whole, before any state is made of it. */
export function downloadBytes(manifest: Manifest): number {
  return manifest.directoryBytes + databaseBytes(manifest)
}

/** The directory and its bytes, from the first server whose bytes have the right hash. Empty in a keyless database. */
export async function downloadDirectory(
  { core, environment }: { readonly core: Core; readonly environment: Pick<Environment, 'pause'> },
  manifest: Manifest,
  sources: Pick<Sources, 'servers' | 'stats' | 'received'>,
  signal: AbortSignal,
): Promise<{ bytes: Uint8Array; handle: DirectoryHandle | undefined }> {
  if (!manifest.keyed) return { bytes: new Uint8Array(), handle: undefined }
  const { directoryHash, directoryBytes } = manifest
  const directory = await downloadBlob(
    sources,
    directoryHash,
    directoryBytes,
    'a key directory',
    signal,
    async bytes => {
      await environment.pause()
      return isDirectoryOf(core, manifest, bytes)
    },
  )
  await environment.pause()
  return { bytes: directory, handle: decodeDirectory(core, directory, manifest, sources.servers) }
}

/**
 * A blob in one piece, from the first server whose bytes are right. What has come from the server that is furthest counts as received. Throws
 * the servers' failures.
 */
export async function downloadBlob(
  { servers, stats, received }: Pick<Sources, 'servers' | 'stats' | 'received'>,
  hash: Uint8Array,
  bytes: number,
  what: string,
  signal: AbortSignal,
  isRight: (bytes: Uint8Array) => boolean | Promise<boolean>,
): Promise<Uint8Array> {
  let most = 0
  try {
    const asking = { outlasts: true, onFailed: stats.onFailed }
    return await askOne(servers, asking, signal, async (link, signal, told) => {
      let own = 0
      const took = (more: number) => {
        told(more)
        own += more
        if (own <= most) return
        received(own - most)
        most = own
      }
      const blob = await getWholeBlob(link, toHex(hash), bytes, signal, took)
      if (await isRight(blob)) return blob
      const expected = `expected ${what} with the hash that was agreed on, got another`
      throw new TamperedError(link.server.name, `${expected}; use another server, and tell its operator`)
    })
  } catch (error) {
    received(-most)
    throw error
  }
}

/** Whether bytes are the directory of a manifest. */
export function isDirectoryOf(core: Core, manifest: Manifest, bytes: Uint8Array): boolean {
  const hash = inCore(core, () => core.blake3(bytes))
  return equalBytes(hash, manifest.directoryHash)
}

/** Reads a directory whose hash is right. Throws ProtocolError if it is malformed, or the manifest names other blocks. */
function decodeDirectory(core: Core, bytes: Uint8Array, manifest: Manifest, servers: readonly Link[]): DirectoryHandle {
  let directory: DirectoryHandle | undefined
  try {
    directory = inCore(core, () => hintsOf(core).decodeDirectory(bytes, manifest.records))
  } catch (error) {
    if (coreCode(error) !== 'directory') throw error
  }
  const read = directory
  if (read && withDirectoryShape(core, manifest, shape => inCore(core, () => read.isOf(shape)))) return read
  release(core, read)
  const all = namesOf(servers.map(({ server }) => server))
  throw new ProtocolError(all, 'expected a well-formed key directory, got a malformed one; ask their operators')
}

/** A partition that a server is giving. */
interface Piece {
  readonly link: Link
  readonly pace: Pace
  readonly over: AbortController
}

/**
 * Downloads the partitions that `folding` does not have yet, and folds each one if its hash is right. What several of them have in common, as
 * empty ones do, is downloaded once; what the map has in a copy, never.
 */
export async function downloadPartitions(
  context: SchemeContext,
  manifest: Manifest,
  folding: Lanes,
  { servers, stats, gently, received, save, held }: Sources,
  signal: AbortSignal,
): Promise<void> {
  const { core } = context
  const { clock, random } = context.environment
  const bytes = partitionBytes(manifest)
  const places = new Map<string, number[]>()
  for (let q = 0; q < manifest.partitions; q++) {
    const hash = toHex(contentHash(manifest, q))
    const same = places.get(hash)
    if (inCore(core, () => folding.isFolded(q))) received(bytes)
    else if (same !== undefined) same.push(q)
    else places.set(hash, [q])
  }
  const copy = async (to: readonly number[], lane: number, chunks: readonly Uint8Array[]) => {
    const give = async (take: Sink) => {
      signal.throwIfAborted()
      for (const chunk of chunks) await take(chunk)
    }
    for (const q of to) {
      if (!(await fold(context, folding, lane, q, received, give))) return false
      await save()
    }
    return true
  }
  for (const [hash, to] of places) {
    const there = held(to[0]!)
    if (there?.length === bytes && (await copy(to, 0, [there]))) places.delete(hash)
  }
  const missing = [...places.values()]
  const pieces = new Set<Piece>()
  const failures = new Map<Link, ServerError>()
  /** lanes whose piece another has taken over */
  let resting = new Set<Link>()
  let wake = () => {}
  const take = async (link: Link, lane: number, signal: AbortSignal) => {
    const [partition, ...others] = missing.shift()! as [number, ...number[]]
    const piece: Piece = { link, pace: new Pace(link), over: new AbortController() }
    const isShared = others.length > 0
    let chunks: readonly Uint8Array[]
    const told = (bytes: number) => {
      piece.pace.told(bytes)
      received(bytes)
    }
    pieces.add(piece)
    try {
      chunks = await scoped([signal, piece.over.signal], async signal => {
        return await repeated(link, { outlasts: true }, signal, (link, signal) =>
          receive(context, manifest, folding, link, lane, partition, isShared, told, signal),
        )
      })
    } catch (error) {
      missing.unshift([partition, ...others])
      if (piece.over.signal.aborted) return // another server gives it
      if (signal.aborted || !(error instanceof ServerError)) throw error
      failures.set(link, error)
      stats.onFailed(link, error)
      return
    } finally {
      pieces.delete(piece)
      wake()
    }
    await copy(others, lane, chunks)
    await save()
  }
  /** An idle lane waits for the other's piece, and takes it over if that takes too long. */
  const wait = async (signal: AbortSignal) => {
    const { link, pace, over } = [...pieces][0]!
    const { left } = pace
    if (left <= 0 && !link.environment.connection?.isOffline) {
      link.standing.note(link, 'late')
      stats.incident(link.server.name, 'slow')
      resting.add(link)
      over.abort(OVER)
    }
    const ended = new AbortController()
    wake = () => ended.abort()
    await scoped([signal, ended.signal], either => sleep(clock, left > 0 ? left : SLOW_MS, either))
  }
  const isAble = (link: Link) => !failures.has(link)
  const serve = async (link: Link, lane: number, signal: AbortSignal) => {
    while (isAble(link) && !resting.has(link) && missing.length + pieces.size > 0) {
      const mayTake = missing.length > 0 && !(gently && pieces.size > 0)
      await (mayTake ? take(link, lane, signal) : wait(signal))
      signal.throwIfAborted()
    }
  }
  // Two servers at a time, none that is known to be late while there is another. Each gives the next partition as soon as it has given one,
  // so a slow one gives fewer. That tells nothing: every client downloads everything. One that has failed leaves its last partition to
  // others, which may have finished: hence the loop.
  const order = servers.length > LANES ? shuffled(servers, random) : servers
  do {
    resting = new Set()
    const able = order.filter(isAble)
    const quick = able.filter(link => !link.standing.isLate(link))
    const lanes = (quick.length > 0 ? quick : able).slice(0, LANES)
    await together(
      signal,
      lanes.map((link, lane) => signal => serve(link, lane, signal)),
    )
  } while (missing.length > 0 && order.some(isAble))
  if (missing.length > 0) throw worstOf([...failures.values()])
}

/** Does all steps, and yields the thread between them. May be aborted. */
export async function goSteps(
  { core, environment }: SchemeContext,
  folding: Pick<Lanes, 'step'>,
  signal?: AbortSignal,
): Promise<void> {
  while (inCore(core, () => folding.step?.() === true)) {
    await environment.pause()
    signal?.throwIfAborted()
  }
}

/** Downloads one partition through one server's lane. Returns its bytes if others share them, else nothing. */
async function receive(
  context: SchemeContext,
  manifest: Manifest,
  folding: Lanes,
  link: Link,
  lane: number,
  partition: number,
  isShared: boolean,
  told: (bytes: number) => void,
  signal: AbortSignal,
): Promise<readonly Uint8Array[]> {
  const hash = toHex(contentHash(manifest, partition))
  const chunks: Uint8Array[] = []
  const give = async (take: Sink) => {
    const taking = async (chunk: Uint8Array) => {
      if (isShared) chunks.push(chunk)
      await take(chunk)
    }
    await getBlob(link, hash, partitionBytes(manifest), taking, signal)
  }
  if (await fold(context, folding, lane, partition, told, give)) return chunks
  const expected = 'expected a partition with the hash that was agreed on, got another'
  throw new TamperedError(link.server.name, `${expected}; use another server, and tell its operator`)
}

/** Folds what `give` gives, if it has the hash of the partition. Returns whether it does. */
async function fold(
  context: SchemeContext,
  folding: Lanes,
  lane: number,
  partition: number,
  told: (bytes: number) => void,
  give: (take: Sink) => Promise<void>,
): Promise<boolean> {
  const { core, environment } = context
  let received = 0
  let work = 0
  const take = async (chunk: Uint8Array) => {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + WORK_BYTES - work)
      inCore(core, () => {
        // A fresh view each time: the memory moves when it grows.
        const { buffer } = folding.memory ?? hintsOf(core).memory
        new Uint8Array(buffer, folding.lanePointer(lane) + received, piece.length).set(piece)
        folding.absorb(lane, piece.length)
      })
      at += piece.length
      received += piece.length
      told(piece.length)
      work += piece.length
      if (work < WORK_BYTES) continue
      work = 0
      await environment.pause()
    }
  }
  await goSteps(context, folding) // of another lane, which the core would go all at once
  inCore(core, () => folding.begin(lane, partition))
  try {
    await give(take)
    await environment.pause()
    await goSteps(context, folding)
    const isRight = inCore(core, () => folding.fold(lane))
    await environment.pause()
    if (isRight) await goSteps(context, folding)
    else told(-received)
    return isRight
  } catch (error) {
    told(-received)
    inCore(core, () => folding.abandon(lane))
    throw error
  }
}
