// Checks on a lookup's real traffic what must hold for every lookup (docs/threat-model.md, P1 to P3).

import { HEADER_BYTES } from '@keyhush/protocol'
import type { ServerName } from '../backstage.js'
import type { Exchange } from './recorder.js'

/** A lookup that has ended, with what must not be in its traffic. */
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

/** Checks `now`, and compares it with another lookup, `before`. */
export function check(now: Seen, before?: Seen): Check[] {
  const { exchanges } = now
  const sent = concat(exchanges.flatMap(({ path, sent }) => [new TextEncoder().encode(path), sent]))
  const telling = now.keys.filter(key => key.length >= TELLING_BYTES)
  const inIt = [...telling, ...now.fingerprints].some(bytes => includes(sent, bytes))
  return [
    {
      holds: lengthsOf(exchanges, 'A') === lengthsOf(exchanges, 'B'),
      says: 'Requests to server A and server B have the same lengths. So have their replies.',
    },
    {
      holds: inIt ? false : telling.length > 0 || undefined,
      says:
        telling.length > 0
          ? 'What was looked up is in no request, nor is its fingerprint.'
          : 'Its fingerprint is in no request. The word itself is so short that random bytes contain it by chance.',
    },
    {
      holds: exchanges.every(isAnonymous),
      says: 'No request has a cookie, a referrer or a header of its own that the servers could compare.',
    },
    {
      holds: exchanges.every(({ reply }) => reply?.encoding == null),
      says: 'No reply is compressed: its compressed length would tell something about it.',
    },
    ...(before === undefined ? [] : [equalLengths(now, before), freshness(now, before)]),
  ]
}

function equalLengths(now: Seen, before: Seen): Check {
  const lengths = ({ exchanges }: Seen) => (['A', 'B'] as const).map(server => lengthsOf(exchanges, server)).join()
  return {
    holds: lengths(now) === lengths(before),
    says: 'A lookup that finds something and one that does not have the same lengths.',
  }
}

function freshness(now: Seen, before: Seen): Check {
  const parts = ({ exchanges }: Seen) => concat(exchanges.map(({ sent }) => sent.subarray(HEADER_BYTES)))
  const earlier = new Set(windows(parts(before)))
  const repeated = windows(parts(now)).some(window => earlier.has(window))
  return { holds: !repeated, says: 'The two lookups have no random bytes in common.' }
}

/** Lengths of one server's requests and replies. */
function lengthsOf(exchanges: readonly Exchange[], server: ServerName): string {
  return exchanges
    .filter(exchange => exchange.server === server)
    .map(({ path, sent, reply }) => `${path} ${sent.length} ${reply?.bytes.length}`)
    .join(', ')
}

function isAnonymous({ options }: Exchange): boolean {
  const { credentials, referrerPolicy, cache, redirect, headers } = options
  const nothing = credentials === 'omit' && referrerPolicy === 'no-referrer' && headers === undefined
  return nothing && cache === 'no-store' && redirect === 'manual'
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
