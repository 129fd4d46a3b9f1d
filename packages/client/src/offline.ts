// The offline phase (Fig. 4): the directory, then all partitions, half from each server, into a new hint. Both servers
// have agreed on a manifest with a hash of every blob, so a blob may come from either and is checked before it is used.
// Nothing secret is sent, so everything here may be called off at any time.

import { contentHash, equalBytes, type Manifest, partitionBytes, toHex } from '@pirouette/protocol'
import type { Core, DirectoryHandle, HintBuilderHandle } from '@pirouette/wasm'
import { together } from './abort.js'
import { WORK_BYTES } from './constants.js'
import { coreCode, inCore } from './core.js'
import type { Environment } from './environment.js'
import { type PirouetteError, ProtocolError, ServerError, TamperedError } from './errors.js'
import type { ProgressMeter } from './progress.js'
import { graver, patiently } from './retry.js'
import type { StatsKeeper } from './stats.js'
import { getBlob, getWholeBlob, type Link } from './transport.js'
import { Turns } from './turns.js'

/** Bytes of everything the offline phase downloads, manifests apart. */
export function offlineBytes(manifest: Manifest): number {
  return manifest.directoryBytes + manifest.partitions * partitionBytes(manifest)
}

interface Downloads {
  readonly core: Core
  readonly environment: Environment
  readonly manifest: Manifest
  readonly links: readonly [Link, Link]
  readonly progress: ProgressMeter
  readonly stats: StatsKeeper
}

/** What a server failed with, by position in the pair. It is not asked again in this phase. */
type Failures = [PirouetteError | undefined, PirouetteError | undefined]

/** How partitions are fetched. */
export interface Manner {
  /**
   * One partition under way at a time instead of two, so that an interruption costs at most one: for a download that
   * was interrupted before.
   */
  readonly gently: boolean
  /** called after each partition that was folded */
  readonly save: () => Promise<void>
}

/** One run of the offline phase. Throws once neither server can be used; the error names a server that lied first. */
export class Download {
  readonly #downloads: Downloads
  readonly #failures: Failures = [undefined, undefined]

  constructor(downloads: Downloads) {
    this.#downloads = downloads
    downloads.progress.expect(offlineBytes(downloads.manifest))
  }

  /** The directory and its bytes, from the first server whose bytes have the right hash. Empty in a keyless database. */
  async directory(signal: AbortSignal): Promise<{ bytes: Uint8Array; handle: DirectoryHandle | undefined }> {
    const { core, manifest, links, progress } = this.#downloads
    if (!manifest.keyed) return { bytes: new Uint8Array(), handle: undefined }
    progress.phase('directory')
    const bytes = await downloadDirectory(this.#downloads, this.#failures, signal)
    return { bytes, handle: decodeDirectory(core, bytes, manifest.records, links) }
  }

  /** All partitions that `builder` does not have yet. */
  async partitions(builder: HintBuilderHandle, manner: Manner, signal: AbortSignal): Promise<void> {
    this.#downloads.progress.phase('partitions')
    await downloadPartitions(this.#downloads, this.#failures, builder, manner, signal)
  }
}

async function downloadDirectory(
  { core, environment, manifest, links, progress, stats }: Downloads,
  failures: Failures,
  signal: AbortSignal,
): Promise<Uint8Array> {
  for (const s of [0, 1] as const) {
    const link = links[s]
    try {
      const bytes = await patiently(link, signal, () => getDirectory(link, manifest, progress, signal))
      await environment.pause()
      if (!isDirectoryOf(core, manifest, bytes)) {
        progress.add(-bytes.length)
        throw new TamperedError(link.server.name, 'its directory does not have the hash both servers agreed on')
      }
      return bytes
    } catch (error) {
      noteFailure(failures, s, error, signal, stats, link)
    }
  }
  throw bothFailed(failures)
}

/** Whether bytes are the directory that a manifest speaks of. */
export function isDirectoryOf(core: Core, manifest: Manifest, bytes: Uint8Array): boolean {
  const hash = inCore(core, () => core.blake3(bytes))
  return equalBytes(hash, manifest.directoryHash)
}

async function getDirectory(
  link: Link,
  { directoryHash, directoryBytes }: Manifest,
  progress: ProgressMeter,
  signal: AbortSignal,
): Promise<Uint8Array> {
  let received = 0
  const told = (bytes: number) => {
    received += bytes
    progress.add(bytes)
  }
  try {
    return await getWholeBlob(link, toHex(directoryHash), directoryBytes, signal, told)
  } catch (error) {
    progress.add(-received)
    throw error
  }
}

function decodeDirectory(core: Core, bytes: Uint8Array, records: number, links: Downloads['links']): DirectoryHandle {
  try {
    return inCore(core, () => core.decodeDirectory(bytes, records))
  } catch (error) {
    if (coreCode(error) !== 'directory') throw error
    // The hash was right: the servers agree on bytes that are no directory.
    const both = `${links[0].server.name} and ${links[1].server.name}`
    throw new ProtocolError(both, 'the directory both publish is malformed; ask their operators')
  }
}

async function downloadPartitions(
  downloads: Downloads,
  failures: Failures,
  builder: HintBuilderHandle,
  { gently, save }: Manner,
  signal: AbortSignal,
): Promise<void> {
  const { core, manifest, links, progress, stats } = downloads
  // Even partitions from one server, odd ones from the other. It tells nothing: everybody downloads everything.
  const shares: [number[], number[]] = [[], []]
  for (let q = 0; q < manifest.partitions; q++) {
    if (inCore(core, () => builder.isFolded(q))) progress.add(partitionBytes(manifest))
    else shares[q % 2 === 0 ? 0 : 1].push(q)
  }
  const turns = new Turns()
  const serve = async (s: 0 | 1, signal: AbortSignal) => {
    const next = async () => {
      const q = shares[s].shift()!
      try {
        await patiently(links[s], signal, () => receive(downloads, builder, s, q, signal))
      } catch (error) {
        noteFailure(failures, s, error, signal, stats, links[s])
        shares[s].push(q)
        return
      }
      await save()
    }
    while (failures[s] === undefined && shares[s].length > 0) await (gently ? turns.take(next) : next())
    // The rest of a failed server's share is the other's, who may have finished already.
    if (failures[s] !== undefined) shares[s === 0 ? 1 : 0].push(...shares[s].splice(0))
  }
  do {
    await together(signal, [signal => serve(0, signal), signal => serve(1, signal)])
  } while ((shares[0].length > 0 && !failures[0]) || (shares[1].length > 0 && !failures[1]))
  if (shares[0].length + shares[1].length > 0) throw bothFailed(failures)
}

/** One partition through the lane of server `s`: hashed as it arrives, folded only if its hash is right. */
async function receive(
  { core, environment, manifest, links, progress }: Downloads,
  builder: HintBuilderHandle,
  s: 0 | 1,
  partition: number,
  signal: AbortSignal,
): Promise<void> {
  const link = links[s]
  const lane = s
  let received = 0
  let work = 0
  const take = async (chunk: Uint8Array) => {
    for (let at = 0; at < chunk.length; ) {
      const piece = chunk.subarray(at, at + WORK_BYTES - work)
      inCore(core, () => {
        // A fresh view each time: the memory moves when it grows.
        new Uint8Array(core.memory.buffer, builder.lanePointer(lane) + received, piece.length).set(piece)
        builder.absorb(lane, piece.length)
      })
      at += piece.length
      received += piece.length
      progress.add(piece.length)
      work += piece.length
      if (work < WORK_BYTES) continue
      work = 0
      await environment.pause()
    }
  }
  inCore(core, () => builder.begin(lane, partition))
  try {
    await getBlob(link, toHex(contentHash(manifest, partition)), partitionBytes(manifest), take, signal)
    await environment.pause()
    if (!inCore(core, () => builder.fold(lane))) {
      throw new TamperedError(link.server.name, 'a partition does not have the hash both servers agreed on')
    }
    await environment.pause()
  } catch (error) {
    progress.add(-received)
    inCore(core, () => builder.abandon(lane))
    throw error
  }
}

/** Notes that server `s` is not to be asked again. What is not a server's fault is thrown on. */
function noteFailure(
  failures: Failures,
  s: 0 | 1,
  error: unknown,
  signal: AbortSignal,
  stats: StatsKeeper,
  link: Link,
): void {
  if (signal.aborted || !(error instanceof ServerError)) throw error
  failures[s] = error
  stats.incident(link.server.name, error.code)
}

/** The error to show when neither server is left; both are named. */
function bothFailed([a, b]: Failures): PirouetteError {
  const first = graver(a!, b!)
  first.message += ` (and the other server failed as well: ${(first === a ? b : a)!.message})`
  return first
}
