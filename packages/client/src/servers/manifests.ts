// Manifests, as servers send them and as the store keeps them. What an epoch is follows from its manifest's hash, so any server may send it.

import {
  decodeManifest,
  type EpochInfo,
  equalBytes,
  LONGEST_MANIFEST_BYTES,
  type Manifest,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { ProtocolError, TamperedError, VersionError } from '../base/errors.js'
import type { Clock } from '../platform/clock.js'
import { elsewhere, getBounded, type Link } from './transport.js'

/** of every manifest */
const MAGIC = 'PIRM'

export interface Agreed {
  readonly manifest: Manifest
  /** its canonical bytes */
  readonly bytes: Uint8Array
  /** the publisher's, verified, 64 bytes, and behind it the proof if witnesses are demanded; missing: the map has no publisher's key, or a later epoch's signature covers this one */
  readonly signature?: Uint8Array | undefined
}

/** The newest manifest of one server. */
export async function newestOf(link: Link, signal: AbortSignal): Promise<Agreed> {
  return await manifestAt(link, '/v1/manifest', signal)
}

/**
 * The manifest of an epoch that a server shows; `isHolder`: this one. Another gives its newest: the number may be made up for this client
 * alone, and would join its requests to both. Throws TamperedError or VersionError if the server sends another manifest.
 */
export async function manifestOf(
  link: Link,
  shown: EpochInfo,
  isHolder: boolean,
  hashOf: (bytes: Uint8Array) => Uint8Array,
  signal: AbortSignal,
): Promise<Agreed> {
  const found = await (isHolder ? manifestAt(link, pathOf(shown), signal) : newestOf(link, signal))
  if (toHex(hashOf(found.bytes)) === shown.manifest && isOf(found.manifest, shown)) return found
  const { name } = link.server
  if (!isHolder) throw new VersionError(name, `expected epoch ${shown.epoch}, got another; call again later`)
  const what = `expected the manifest of epoch ${shown.epoch} that /v1/info names, got another`
  throw new TamperedError(name, `${what}; use another server, and tell its operator`)
}

export function pathOf({ generation, epoch }: Pick<EpochInfo, 'generation' | 'epoch'>): string {
  return `/v1/manifest?generation=${generation}&epoch=${epoch}`
}

/** What a server sends there. */
export async function manifestAt(link: Link, path: string, signal: AbortSignal): Promise<Agreed> {
  const bytes = await getBounded(link, path, LONGEST_MANIFEST_BYTES, signal)
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== MAGIC)
    throw elsewhere(link.server.name, path, 'status 200 and no manifest')
  return { manifest: fromWire(link, () => decodeManifest(bytes)), bytes }
}

export function isOf({ generation, epoch }: Manifest, shown: Pick<EpochInfo, 'generation' | 'epoch'>): boolean {
  return generation === shown.generation && epoch === shown.epoch
}

/** The same epoch of one database, byte for byte. */
export function isSame(a: Agreed, b: Agreed): boolean {
  return equalBytes(a.bytes, b.bytes)
}

/** Whether an epoch has expired; one without an expiry never does. */
export function isExpired({ expires }: Pick<Manifest, 'expires'>, clock: Pick<Clock, 'date'>): boolean {
  return expires !== 0 && clock.date() >= expires * 1000
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
export function compareEpochs(
  a: Pick<EpochInfo, 'generation' | 'epoch'>,
  b: Pick<EpochInfo, 'generation' | 'epoch'>,
): number {
  return a.epoch - b.epoch || a.generation - b.generation
}
