// The manifest that all servers agree on: that of the newest epoch all have, compared byte for byte. One of them is honest, so equal
// manifests are right, and all downloads are checked against them. With one server the publisher's signature decides.

import { decodeManifest, equalBytes, LONGEST_MANIFEST_BYTES, type Manifest, WireError } from '@keyhush/protocol'
import { scoped } from '../base/abort.js'
import { ATTEMPTS } from '../base/constants.js'
import { ProtocolError, ServersDisagreeError, VersionError } from '../base/errors.js'
import { namesOf } from './parties.js'
import { askAll, askSome, withRetry } from './retry.js'
import { getBounded, type Link, type Links } from './transport.js'

export interface Agreed {
  readonly manifest: Manifest
  /** its canonical bytes */
  readonly bytes: Uint8Array
  /** the publisher's, verified, 64 bytes; missing: the map has no publisher's key */
  readonly signature?: Uint8Array | undefined
}

/** Fetches the manifest from all servers and compares. `atLeast`: so many of them suffice. Throws ServersDisagreeError. */
export async function agree(links: Links, signal: AbortSignal, atLeast = links.length): Promise<Agreed> {
  return atLeast < links.length ? await agreeAmong(links, atLeast, signal) : await agreeAll(links, signal)
}

/** The newest manifest that `atLeast` servers show, byte for byte. */
async function agreeAmong(links: Links, atLeast: number, signal: AbortSignal): Promise<Agreed> {
  const newest = await askSome(links, atLeast, signal, newestOf)
  const shows = async (i: number, one: Agreed, signal: AbortSignal) => {
    const own = newest[i]
    const order = own === undefined ? -1 : compareEpochs(own.manifest, one.manifest)
    if (order < 0) return false
    const ask = (link: Link, signal: AbortSignal) => manifestOf(link, one.manifest, signal)
    const [at] = order === 0 ? [own] : await askSome([links[i]!], 0, signal, ask)
    return at !== undefined && equalBytes(at.bytes, one.bytes)
  }
  const candidates = newest.filter(each => each !== undefined)
  candidates.sort((a, b) => compareEpochs(b.manifest, a.manifest))
  let found: Agreed | undefined
  for (const one of candidates) {
    if (found !== undefined && compareEpochs(one.manifest, found.manifest) < 0) break
    if (found !== undefined && equalBytes(one.bytes, found.bytes)) continue
    const votes = (signal: AbortSignal) => links.map((_, i) => shows(i, one, signal))
    if (!(await scoped([signal], signal => decided(votes(signal), atLeast)))) continue
    if (found !== undefined)
      throw disagree(links, `equally many show different manifests of epoch ${one.manifest.epoch}`)
    found = one
  }
  if (found === undefined) throw disagree(links, `fewer than ${atLeast} of them agree`)
  return found
}

/** Whether `atLeast` of these become true, as soon as that is certain: fewer cannot hold it up. */
function decided(votes: readonly Promise<boolean>[], atLeast: number): Promise<boolean> {
  let [yes, no] = [0, 0]
  return new Promise((resolve, reject) => {
    const count = (vote: boolean) => {
      if (vote) yes++
      else no++
      if (yes >= atLeast) resolve(true)
      if (no > votes.length - atLeast) resolve(false)
    }
    for (const vote of votes) vote.then(count, reject)
  })
}

async function agreeAll(links: Links, signal: AbortSignal): Promise<Agreed> {
  let shown = new Map(await askAll(links, async link => [link, await newestOf(link, signal)] as const))
  for (let attempt = 1; ; attempt++) {
    const newest = [...shown.values()]
    const behind = newest.reduce((oldest, each) => (compareEpochs(each.manifest, oldest.manifest) < 0 ? each : oldest))
    if (newest.some(({ manifest }) => !equalBytes(manifest.databaseId, behind.manifest.databaseId))) {
      throw disagree(links, 'they hold different databases')
    }
    const isBehind = (link: Link) => compareEpochs(shown.get(link)!.manifest, behind.manifest) === 0
    // Asks the servers ahead for the epoch of the others: servers keep the previous epoch for this.
    const atOnce = await askAll(links, async link =>
      isBehind(link) ? shown.get(link)! : await manifestOf(link, behind.manifest, signal),
    )
    if (atOnce.some(each => each !== undefined && !equalBytes(each.bytes, behind.bytes))) {
      throw disagree(links, 'their manifests of one epoch differ')
    }
    if (!atOnce.includes(undefined)) return behind
    // Those behind may have moved on meanwhile, and those ahead may have forgotten that epoch.
    const again = await askAll(
      links,
      async link => [link, isBehind(link) ? await newestOf(link, signal) : shown.get(link)!] as const,
    )
    const moved = again.every(([, { manifest }]) => compareEpochs(manifest, behind.manifest) > 0)
    if (attempt === ATTEMPTS || !moved) throw disagree(links, `no epoch is answered by ${all(links)}`)
    shown = new Map(again)
  }
}

function all({ length }: Links): string {
  return length === 2 ? 'both' : 'all'
}

/** The servers contradict each other, or themselves. */
export function disagree(links: Links, reason: string): ServersDisagreeError {
  const names = namesOf(links.map(({ server }) => server))
  return new ServersDisagreeError(
    `expected ${names} to publish the same, but ${reason}; one of them is wrong: ask their operators`,
  )
}

/** The newest manifest of one server. */
export async function newestOf(link: Link, signal: AbortSignal): Promise<Agreed> {
  return decode(
    link,
    await withRetry(link, signal, () => getBounded(link, '/v1/manifest', LONGEST_MANIFEST_BYTES, signal)),
  )
}

/** The manifest of one epoch; undefined if the server does not have it. */
async function manifestOf(
  link: Link,
  { generation, epoch }: Pick<Manifest, 'generation' | 'epoch'>,
  signal: AbortSignal,
): Promise<Agreed | undefined> {
  const path = `/v1/manifest?generation=${generation}&epoch=${epoch}`
  const bytes = await withRetry(link, signal, () => getBounded(link, path, LONGEST_MANIFEST_BYTES, signal)).catch(
    error => {
      if (error instanceof VersionError) return undefined // epoch_unknown
      throw error
    },
  )
  return bytes && decode(link, bytes)
}

function decode(link: Link, bytes: Uint8Array): Agreed {
  return { manifest: fromWire(link, () => decodeManifest(bytes)), bytes }
}

/** A manifest from the store; undefined if this version cannot read it. */
export function readManifest(bytes: Uint8Array): Manifest | undefined {
  try {
    return decodeManifest(bytes)
  } catch (error) {
    if (error instanceof WireError) return undefined
    throw error
  }
}

/** Runs a codec. Its errors become a ProtocolError or VersionError with the server's name. */
export function fromWire<T>(link: Link, decode: () => T): T {
  try {
    return decode()
  } catch (error) {
    if (!(error instanceof WireError)) throw error
    if (error.code === 'version')
      throw new VersionError(link.server.name, `${error.message}; update the older of client and server`)
    throw new ProtocolError(
      link.server.name,
      `${error.message}; is this a Keyhush server, and does a proxy change its replies?`,
    )
  }
}

/** Negative if `a` is older. */
export function compareEpochs(a: Manifest, b: Manifest): number {
  return a.epoch - b.epoch || a.generation - b.generation
}
