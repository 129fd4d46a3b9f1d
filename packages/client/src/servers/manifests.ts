// The manifest that both servers agree on: that of the newest epoch both have, compared byte for byte. One of two servers is honest,
// so equal manifests are right, and all downloads are checked against them. With one server the publisher's signature decides.

import { decodeManifest, equalBytes, LONGEST_MANIFEST_BYTES, type Manifest, WireError } from '@keyhush/protocol'
import { ATTEMPTS } from '../base/constants.js'
import { ProtocolError, ServersDisagreeError, VersionError } from '../base/errors.js'
import { namesOf } from './pair.js'
import { askAll, withRetry } from './retry.js'
import { getBounded, type Link, type Links } from './transport.js'

export interface Agreed {
  readonly manifest: Manifest
  /** its canonical bytes */
  readonly bytes: Uint8Array
  /** the publisher's, verified, 64 bytes; missing: the map has no publisher's key */
  readonly signature?: Uint8Array | undefined
}

/** Fetches the manifest from all servers and compares. Throws ServersDisagreeError. */
export async function agree(links: Links, signal: AbortSignal): Promise<Agreed> {
  const [first, other] = await askAll(links, link => newestOf(link, signal))
  return other === undefined ? first! : await agreedOf(links as Pair, first!, other, signal)
}

type Pair = readonly [Link, Link]

async function agreedOf(links: Pair, first: Agreed, other: Agreed, signal: AbortSignal): Promise<Agreed> {
  let [a, b] = [first, other]
  for (let attempt = 1; ; attempt++) {
    if (!equalBytes(a.manifest.databaseId, b.manifest.databaseId))
      throw disagree(links, 'they hold different databases')
    const order = compareEpochs(a.manifest, b.manifest)
    const behind = order <= 0 ? a : b
    // Asks the server ahead for the epoch of the other: servers keep the previous epoch for this.
    const other = order === 0 ? b : await manifestOf(links[order < 0 ? 1 : 0], behind.manifest, signal)
    if (other !== undefined) {
      if (equalBytes(behind.bytes, other.bytes)) return behind
      throw disagree(links, 'their manifests of one epoch differ')
    }
    // The server behind may have moved on meanwhile, and the server ahead may have forgotten that epoch.
    const again = await newestOf(links[order < 0 ? 0 : 1], signal)
    if (attempt === ATTEMPTS || compareEpochs(again.manifest, behind.manifest) <= 0) {
      throw disagree(links, 'no epoch is answered by both')
    }
    if (order < 0) a = again
    else b = again
  }
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
    if (error.code === 'version') throw new VersionError(link.server.name, `${error.message}; update one or the other`)
    throw new ProtocolError(
      link.server.name,
      `${error.message}; is this a Keyhush server, and nothing changes its replies?`,
    )
  }
}

/** Negative if `a` is older. */
export function compareEpochs(a: Manifest, b: Manifest): number {
  return a.epoch - b.epoch || a.generation - b.generation
}
