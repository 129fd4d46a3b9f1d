// Light hints: the refresh server is shown two seeds and makes the hint; the retrieve server is shown a key and makes the
// tags that it is checked with (docs/protocol.md, Light hints). Requests and replies have 40 bytes of header, of which
// the last four are zero, and lengths that follow from the manifest.

import { checkLength } from './bytes.js'
import { HEADER_BYTES, SUITE_MERKLE_BLAKE3, SUITE_TAGS } from './constants.js'
import { malformed } from './errors.js'
import { blockBytes, type Geometry, partitionBlocks, partitionBytes } from './geometry.js'
import type { Manifest } from './manifest.js'
import { checkAnswered, decodeHeader, encodeMessage, type MessageHeader } from './message.js'

/** What a server is asked for: `hint`, as the refresh server, or `tags`, as the retrieve server. */
export type LightPart = 'hint' | 'tags'

const PARTS = {
  hint: { path: '/v1/hint', request: 'PIRH', reply: 'PIRP', secretBytes: 64 },
  tags: { path: '/v1/tags', request: 'PIRT', reply: 'PIRS', secretBytes: 8 },
} as const

/** Sums under challenge words that come with the parities. */
const CHALLENGES = 64
const LINEAR_TAG_BYTES = 8

/** A request as it arrives at a server, which has yet to find the manifest it speaks of. */
export interface LightRequest extends MessageHeader {
  /** what this server alone is shown, as a view into the request */
  readonly secrets: Uint8Array
}

/** Whether a database can have light hints: their lookups need commitments. */
export function hasLight({ suite }: Pick<Manifest, 'suite'>): boolean {
  return suite !== SUITE_TAGS
}

/** Where a part is asked for. */
export function lightPath(part: LightPart): string {
  return PARTS[part].path
}

/** Bytes of a whole request. */
export function lightRequestBytes(part: LightPart): number {
  return HEADER_BYTES + PARTS[part].secretBytes
}

/** Bytes of a whole reply: M′ parities and 64 sums, or a tag for each of the Q·M′ blocks. */
export function lightReplyBytes(part: LightPart, layout: Geometry): number {
  if (part === 'tags') return HEADER_BYTES + LINEAR_TAG_BYTES * layout.partitions * partitionBlocks(layout)
  return HEADER_BYTES + partitionBytes(layout) + CHALLENGES * blockBytes(layout)
}

/** Throws WireError on secrets of another length. */
export function encodeLightRequest(part: LightPart, manifest: Manifest, secrets: Uint8Array): Uint8Array<ArrayBuffer> {
  checkLength('secrets', secrets, PARTS[part].secretBytes)
  return encodeMessage(PARTS[part].request, manifest, SUITE_MERKLE_BLAKE3, 0, secrets)
}

/** Reads a request. Throws WireError on anything malformed; whether there is such an epoch is the server's to find out. */
export function decodeLightRequest(part: LightPart, bytes: Uint8Array): LightRequest {
  const header = lightHeader('request', PARTS[part].request, bytes)
  checkLength('request length', bytes, lightRequestBytes(part))
  return { ...header, secrets: bytes.subarray(HEADER_BYTES) }
}

export function encodeLightReply(part: LightPart, manifest: Manifest, body: Uint8Array): Uint8Array<ArrayBuffer> {
  return encodeMessage(PARTS[part].reply, manifest, SUITE_MERKLE_BLAKE3, 0, body)
}

/**
 * A reply's body, as a view into `bytes`. Throws WireError, naming the field, unless it is for exactly this manifest's
 * database, generation and epoch. It is not verified.
 */
export function decodeLightReply(part: LightPart, manifest: Manifest, bytes: Uint8Array): Uint8Array {
  checkAnswered(manifest, 0, lightHeader('reply', PARTS[part].reply, bytes))
  checkLength('reply length', bytes, lightReplyBytes(part, manifest))
  return bytes.subarray(HEADER_BYTES)
}

function lightHeader(what: string, magic: string, bytes: Uint8Array): MessageHeader {
  const header = decodeHeader(what, magic, bytes, [SUITE_MERKLE_BLAKE3])
  if (header.count !== 0) malformed('reserved bytes', 'zero', 'others')
  return header
}
