// Light hints: the refresh server is shown two seeds and makes the hint; the retrieve server is shown a key and makes the
// tags that it is checked with (docs/protocol.md, Light hints). For a hint that is to keep tags, each makes something of
// the other's half as well. Requests and replies have 40 bytes of header, of which the last four are zero, and lengths that
// follow from the manifest and the kind of proof.

import { checkLength } from './bytes.js'
import { HEADER_BYTES, SUITE_MERKLE_BLAKE3, SUITE_TAGS } from './constants.js'
import { malformed } from './errors.js'
import { blockBytes, type EntryProofs, type Geometry, partitionBlocks, partitionBytes, suiteOf } from './geometry.js'
import type { Manifest } from './manifest.js'
import { checkAnswered, decodeHeader, encodeMessage, type MessageHeader } from './message.js'

/** What a server is asked for: `hint`, as the refresh server, or `tags`, as the retrieve server. */
export type LightPart = 'hint' | 'tags'

const PARTS = {
  hint: { path: '/v1/hint', request: 'PIRH', reply: 'PIRP', secretBytes: { merkle: 64, tags: 72 } },
  tags: { path: '/v1/tags', request: 'PIRT', reply: 'PIRS', secretBytes: { merkle: 8, tags: 40 } },
} as const

const LINEAR_TAG_BYTES = 8

/** A request as it arrives at a server, which has yet to find the manifest it speaks of. */
export interface LightRequest extends MessageHeader {
  /** what will prove the answers to this hint */
  readonly proofs: EntryProofs
  /** what this server alone is shown, as a view into the request */
  readonly secrets: Uint8Array
}

/** Whether a database can have light hints: those with commitments can. */
export function hasLight({ suite }: Pick<Manifest, 'suite'>): boolean {
  return suite !== SUITE_TAGS
}

/** Where a part is asked for. */
export function lightPath(part: LightPart): string {
  return PARTS[part].path
}

/** Bytes of a whole request. */
export function lightRequestBytes(part: LightPart, proofs: EntryProofs = 'merkle'): number {
  return HEADER_BYTES + PARTS[part].secretBytes[proofs]
}

/**
 * Bytes of a whole reply: M′ parities and a challenge sum, or a tag for each of the Q·M′ blocks. For a hint that is to keep
 * tags, with the parities the tags of all partitions but the last, and with the tags a challenge sum.
 */
export function lightReplyBytes(part: LightPart, layout: Geometry, proofs: EntryProofs = 'merkle'): number {
  const crosswise = proofs === 'tags'
  const sum = LINEAR_TAG_BYTES * Math.ceil(blockBytes(layout) / LINEAR_TAG_BYTES)
  const tags = (partitions: number) => LINEAR_TAG_BYTES * partitions * partitionBlocks(layout)
  if (part === 'tags') return HEADER_BYTES + (crosswise ? sum : 0) + tags(layout.partitions)
  return HEADER_BYTES + partitionBytes(layout) + sum + (crosswise ? tags(layout.partitions - 1) : 0)
}

/** Throws WireError on secrets of another length. */
export function encodeLightRequest(
  part: LightPart,
  manifest: Manifest,
  secrets: Uint8Array,
  proofs: EntryProofs = 'merkle',
): Uint8Array<ArrayBuffer> {
  checkLength('secrets', secrets, PARTS[part].secretBytes[proofs])
  return encodeMessage(PARTS[part].request, manifest, suiteOf(proofs), 0, secrets)
}

/** Reads a request. Throws WireError on anything malformed; whether there is such an epoch is the server's to find out. */
export function decodeLightRequest(part: LightPart, bytes: Uint8Array): LightRequest {
  const header = lightHeader('request', PARTS[part].request, bytes, [SUITE_MERKLE_BLAKE3, SUITE_TAGS])
  const proofs = header.suite === SUITE_TAGS ? 'tags' : 'merkle'
  checkLength('request length', bytes, lightRequestBytes(part, proofs))
  return { ...header, proofs, secrets: bytes.subarray(HEADER_BYTES) }
}

export function encodeLightReply(
  part: LightPart,
  manifest: Manifest,
  body: Uint8Array,
  proofs: EntryProofs = 'merkle',
): Uint8Array<ArrayBuffer> {
  return encodeMessage(PARTS[part].reply, manifest, suiteOf(proofs), 0, body)
}

/**
 * A reply's body, as a view into `bytes`. Throws WireError, naming the field, unless it is for exactly this manifest's
 * database, generation and epoch, and for this kind of hint. It is not verified.
 */
export function decodeLightReply(
  part: LightPart,
  manifest: Manifest,
  bytes: Uint8Array,
  proofs: EntryProofs = 'merkle',
): Uint8Array {
  checkLightReply(part, manifest, bytes, proofs)
  checkLength('reply length', bytes, lightReplyBytes(part, manifest, proofs))
  return bytes.subarray(HEADER_BYTES)
}

/** The same of a reply's header, for whoever has its body elsewhere and has seen to its length. */
export function checkLightReply(
  part: LightPart,
  manifest: Manifest,
  header: Uint8Array,
  proofs: EntryProofs = 'merkle',
): void {
  checkAnswered(manifest, 0, lightHeader('reply', PARTS[part].reply, header, [suiteOf(proofs)]))
}

function lightHeader(what: string, magic: string, bytes: Uint8Array, suites: readonly number[]): MessageHeader {
  const header = decodeHeader(what, magic, bytes, suites)
  if (header.count !== 0) malformed('reserved bytes', 'zero', 'others')
  return header
}
