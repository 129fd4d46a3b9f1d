// Downloads the directory and all partitions, shared out among the servers. The agreed manifest has a hash of every blob, so that any
// server may send it. Nothing secret is sent, so all of this may be aborted at any time.

import { contentHash, equalBytes, type Manifest, partitionBytes, toHex } from '@keyhush/protocol'
import type { Core, DirectoryHandle, Lanes } from '@keyhush/wasm/client'
import { together } from '../base/abort.js'
import { SLOW_DOWNLOAD_MS, WORK_BYTES } from '../base/constants.js'
import { ProtocolError, ServerError, TamperedError } from '../base/errors.js'
import { Turns } from '../base/mutex.js'
import { counted } from '../base/progress.js'
import { shuffled } from '../base/random.js'
import { coreCode, hintsOf, inCore, release } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { withDirectoryShape } from '../platform/layout.js'
import { throughOffline } from '../servers/offline.js'
import { namesOf } from '../servers/parties.js'
import { worstOf } from '../servers/retry.js'
import type { StatsKeeper } from '../servers/stats.js'
import { getBlob, getWholeBlob, type Link } from '../servers/transport.js'
import type { Failures, SchemeContext, Sources } from './scheme.js'

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

/** The servers' failures in one run of the offline phase. */
export class FailedServers implements Failures {
  readonly #errors: (ServerError | undefined)[]
  readonly #links: readonly Link[]
  readonly #stats: StatsKeeper

  constructor(links: readonly Link[], stats: StatsKeeper) {
    this.#errors = links.map(() => undefined)
    this.#links = links
    this.#stats = stats
  }

  get failed(): readonly boolean[] {
    return this.#errors.map(error => error !== undefined)
  }

  note(server: number, error: unknown, signal: AbortSignal): void {
    if (signal.aborted || !(error instanceof ServerError)) throw error
    this.#errors[server] = error
    this.#stats.incident(this.#links[server]!.server.name, error.code)
  }

  slow(server: number): void {
    this.#stats.incident(this.#links[server]!.server.name, 'slow')
  }

  get error(): ServerError {
    return worstOf(this.#errors.filter(error => error !== undefined))
  }
}

/** The directory and its bytes, from the first server whose bytes have the right hash. Empty in a keyless database. */
export async function downloadDirectory(
  { core, environment }: { readonly core: Core; readonly environment: Pick<Environment, 'pause'> },
  manifest: Manifest,
  { servers, failures, received }: Pick<Sources, 'servers' | 'failures' | 'received'>,
  signal: AbortSignal,
): Promise<{ bytes: Uint8Array; handle: DirectoryHandle | undefined }> {
  if (!manifest.keyed) return { bytes: new Uint8Array(), handle: undefined }
  const fromOne = async (link: Link) => {
    const bytes = await getDirectory(link, manifest, received, signal)
    await environment.pause()
    if (isDirectoryOf(core, manifest, bytes)) return bytes
    received(-bytes.length)
    throw new TamperedError(
      link.server.name,
      'expected a key directory with the hash that was agreed on, got another; use another server, and tell its operator',
    )
  }
  for (const [s, link] of servers.entries()) {
    const bytes = await throughOffline(link, signal, () => fromOne(link)).catch((error: unknown) =>
      failures.note(s, error, signal),
    )
    await environment.pause()
    if (bytes) return { bytes, handle: decodeDirectory(core, bytes, manifest, servers) }
  }
  throw failures.error
}

/** Whether bytes are the directory of a manifest. */
export function isDirectoryOf(core: Core, manifest: Manifest, bytes: Uint8Array): boolean {
  const hash = inCore(core, () => core.blake3(bytes))
  return equalBytes(hash, manifest.directoryHash)
}

async function getDirectory(
  link: Link,
  { directoryHash, directoryBytes }: Manifest,
  told: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return await counted(told, received => getWholeBlob(link, toHex(directoryHash), directoryBytes, signal, received))
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

/** Downloads the partitions that `folding` does not have yet, and folds each one if its hash is right. */
export async function downloadPartitions(
  context: SchemeContext,
  manifest: Manifest,
  folding: Lanes,
  { servers, failures, gently, received, save }: Sources,
  signal: AbortSignal,
): Promise<void> {
  const { core } = context
  const { clock, random } = context.environment
  const start = clock.now()
  const missing: number[] = []
  for (let q = 0; q < manifest.partitions; q++) {
    if (inCore(core, () => folding.isFolded(q))) received(partitionBytes(manifest))
    else missing.push(q)
  }
  const total = missing.length
  const taken = servers.map(() => 0)
  const turns = new Turns()
  let isSlow = false // a slow server's turns would each hold up the others
  const serve = async (s: number, lane: number, signal: AbortSignal) => {
    const link = servers[s]!
    const next = async () => {
      const q = missing.shift()
      if (q === undefined) return
      taken[s]!++
      const begun = clock.now()
      try {
        await throughOffline(link, signal, () => receive(context, manifest, folding, link, lane, q, received, signal))
      } catch (error) {
        failures.note(s, error, signal)
        missing.push(q)
        return
      } finally {
        isSlow ||= clock.now() - begun > SLOW_DOWNLOAD_MS
      }
      await save()
    }
    while (!failures.failed[s] && missing.length > 0) await (gently && !isSlow ? turns.take(next) : next())
  }
  // Two servers at a time. Each gives the next partition as soon as it has given one, so a slow one gives fewer. That tells nothing:
  // every client downloads everything. One that has failed leaves its last partition to others, which may have finished: hence the loop.
  const order = servers.length > LANES ? shuffled([...servers.keys()], random) : [...servers.keys()]
  const able = () => order.filter(s => !failures.failed[s])
  do {
    await together(
      signal,
      able()
        .slice(0, LANES)
        .map((s, lane) => signal => serve(s, lane, signal)),
    )
  } while (missing.length > 0 && able().length > 0)
  if (missing.length > 0) throw failures.error
  for (const s of order.slice(0, LANES)) {
    const few = taken[s]! * Math.min(LANES, servers.length) * 4 < total // less than a quarter of its share
    if (few && !failures.failed[s] && clock.now() - start > SLOW_DOWNLOAD_MS) failures.slow(s)
  }
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

/** Downloads one partition through one server's lane. */
async function receive(
  context: SchemeContext,
  manifest: Manifest,
  folding: Lanes,
  link: Link,
  lane: number,
  partition: number,
  told: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
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
    await getBlob(link, toHex(contentHash(manifest, partition)), partitionBytes(manifest), take, signal)
    await environment.pause()
    await goSteps(context, folding)
    if (!inCore(core, () => folding.fold(lane))) {
      throw new TamperedError(
        link.server.name,
        'expected a partition with the hash that was agreed on, got another; use another server, and tell its operator',
      )
    }
    await environment.pause()
    await goSteps(context, folding)
  } catch (error) {
    told(-received)
    inCore(core, () => folding.abandon(lane))
    throw error
  }
}
