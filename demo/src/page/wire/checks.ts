// Checks on a lookup's real traffic what must hold for every lookup (docs/threat-model.md, P1 to P3).

import { FENCE_REPLY_BYTES, HEADER_BYTES } from '@keyhush/protocol'
import type { ServerName } from '../backstage.js'
import { secretPart } from './fields.js'
import type { Exchange } from './recorder.js'

/** A lookup that has ended. */
export interface Seen {
  /** what was typed */
  readonly typed: string
  /** the keys that were looked up */
  readonly keys: readonly Uint8Array[]
  /** of the keys, 16 bytes each: the database holds these instead of keys */
  readonly fingerprints: readonly Uint8Array[]
  readonly found: boolean
  readonly exchanges: readonly Exchange[]
}

export interface Check {
  /** undefined: it cannot be told */
  readonly holds: boolean | undefined
  readonly says: string
}

/** A shorter key can appear among random bytes by chance. */
const TELLING_BYTES = 5
/** A sequence of so many bytes does not repeat by chance. */
const REPEATED_BYTES = 16

/** Checks `now`, and compares it with the lookup of the same kind before it. */
export function check(now: Seen, before: Seen | undefined): Check[] {
  const { exchanges } = now
  const alone = new Set(exchanges.map(({ server }) => server)).size < 2
  const [a, b] = (['A', 'B'] as const).map(server => lengthsOf(exchanges, server, false)) as [string, string]
  const sent = concat(exchanges.flatMap(({ path, sent }) => [new TextEncoder().encode(path), sent]))
  const claimed = exchanges.some(({ path, sent }) => !path.endsWith('/v1/fence') && claimBytes(path, sent) > 0)
  const telling = now.keys.filter(key => key.length >= TELLING_BYTES)
  const inIt = [...telling, ...now.fingerprints].some(bytes => includes(sent, bytes))
  return [
    ...(alone
      ? []
      : [
          {
            holds: a === b,
            says: `Server A and server B were sent questions of the same lengths, and answered at the same length${claimed ? ', but for what one of them is sent to notice copies of this page' : ''}.`,
          },
        ]),
    {
      holds: inIt ? false : telling.length > 0 || undefined,
      says:
        telling.length > 0
          ? 'What you looked up is in no request, nor is its fingerprint.'
          : 'The fingerprint of what you looked up is in no request. The word itself is so short that random bytes have it by chance.',
    },
    {
      holds: exchanges.every(isAnonymous),
      says: 'No request has a cookie, a referrer or a header of ours that the servers could compare.',
    },
    {
      holds: exchanges.every(({ reply }) => reply?.encoding == null),
      says: 'No answer is compressed: how well it packs would tell something about it.',
    },
    ...(before === undefined ? [] : [equalLengths(now, before), freshness(now, before)]),
  ]
}

function equalLengths(now: Seen, before: Seen): Check {
  const lengths = ({ exchanges }: Seen) =>
    (['A', 'B'] as const).map(server => lengthsOf(exchanges, server, true)).join()
  const was = ({ found }: Seen) => (found ? 'found' : 'not found')
  return {
    holds: lengths(now) === lengths(before),
    says: `This lookup (${was(now)}) and the one before (${was(before)}) are of the same lengths.`,
  }
}

function freshness(now: Seen, before: Seen): Check {
  const parts = ({ exchanges }: Seen) => concat(exchanges.map(({ path, sent }) => secretPart(path, sent)))
  const earlier = new Set(windows(parts(before)))
  const repeated = windows(parts(now)).some(window => earlier.has(window))
  return { holds: !repeated, says: 'Nothing random of the lookup before was sent again.' }
}

/**
 * Lengths of one server's requests and replies. Unless `whole`, it leaves out what only one server gets, for its rollback fence:
 * which server this is does not depend on the lookup.
 */
function lengthsOf(exchanges: readonly Exchange[], server: ServerName, whole: boolean): string {
  return exchanges
    .filter(exchange => exchange.server === server && (whole || !exchange.path.endsWith('/v1/fence')))
    .map(({ path, sent, reply }) => {
      const claim = whole ? 0 : claimBytes(path, sent)
      return `${path} ${sent.length - claim} ${reply && reply.bytes.length - (claim > 0 ? FENCE_REPLY_BYTES : 0)}`
    })
    .join(', ')
}

function claimBytes(path: string, sent: Uint8Array): number {
  return sent.length - HEADER_BYTES - secretPart(path, sent).length
}

function isAnonymous({ options }: Exchange): boolean {
  const { credentials, referrerPolicy, cache, redirect, headers } = options
  const nothing = credentials === 'omit' && referrerPolicy === 'no-referrer' && headers === undefined
  return nothing && cache === 'no-store' && redirect === 'error'
}

/** Every sequence of REPEATED_BYTES bytes that begins at an even offset. */
function windows(bytes: Uint8Array): string[] {
  const starts = Math.max(0, (bytes.length - REPEATED_BYTES) / 2 + 1)
  return Array.from({ length: Math.floor(starts) }, (_, i) => bytes.subarray(2 * i, 2 * i + REPEATED_BYTES).join())
}

function includes(bytes: Uint8Array, wanted: Uint8Array): boolean {
  return bytes.some((_, at) => wanted.every((byte, i) => bytes[at + i] === byte))
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  parts.reduce((at, part) => {
    bytes.set(part, at)
    return at + part.length
  }, 0)
  return bytes
}
