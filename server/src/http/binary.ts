// What routes share: how a request is read, which epoch it asks at, how a reply leaves.

import { claimedCount, equalBytes, type MessageHeader } from '@keyhush/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { epochUnknown, Refusal, readMessage } from '../base/refusal.js'
import type { AnyEpoch, Epochs } from '../database/epochs.js'

/** How many queries a request says it carries, for the rate limit. */
export function queriesIn({ body }: FastifyRequest): number {
  return Buffer.isBuffer(body) ? claimedCount(body) : 1
}

/** The bytes of a request's body; none if there is no body. */
export function bytesOf(body: unknown): Uint8Array {
  return Buffer.isBuffer(body) ? body : new Uint8Array()
}

/** Throws a `bad_request` Refusal for a body that is none. */
export function decoded<T>(body: unknown, decode: (bytes: Uint8Array) => T): T {
  return readMessage(() => decode(bytesOf(body)))
}

type Asked = Pick<MessageHeader, 'databaseId' | 'generation' | 'epoch'>

/** Throws a `wrong_database` Refusal. */
export function expectDatabase(epochs: Epochs<AnyEpoch>, { databaseId }: Pick<Asked, 'databaseId'>): void {
  if (equalBytes(databaseId, epochs.databaseId)) return
  throw new Refusal('wrong_database', 'expected a request for the database served here, got one for another')
}

/** The epoch that a request asks at. Throws a `wrong_database` or `epoch_unknown` Refusal. */
export function epochOf<E extends AnyEpoch>(epochs: Epochs<E>, asked: Asked): E {
  expectDatabase(epochs, asked)
  const { generation, epoch } = asked
  const found = epochs.find(generation, epoch)
  if (found === undefined) throw epochUnknown(epochs.newest.manifest)
  return found
}

/** Throws a `bad_request` Refusal. */
export function expectPartitions(
  { manifest }: Pick<AnyEpoch, 'manifest'>,
  { partitions }: { readonly partitions: number },
): void {
  if (partitions === manifest.partitions) return
  throw new Refusal('bad_request', `partitions: expected ${manifest.partitions}, got ${partitions}`)
}

/**
 * For a GET whose next reply may be another: no cache keeps it. `Vary: *` says so to a page's service worker, whose usual strategies do not
 * read Cache-Control.
 */
export function neverKept(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store').header('vary', '*')
}

/** Never compressed, never chunked, not to be transformed on the way: its length is what the protocol says. */
export function sendBytes(reply: FastifyReply, bytes: Uint8Array): FastifyReply {
  // Fastify itself says of bytes how many they are, and that they are an octet stream.
  return reply.header('cache-control', 'no-store, no-transform').send(bytes)
}

/** A number in a URL, whose schema admits decimal digits alone. Throws a `bad_request` Refusal beyond 2^32 - 1. */
export function numberOf(digits: string): number {
  const number = Number(digits)
  if (number > 0xffff_ffff) throw new Refusal('bad_request', 'expected numbers up to 2^32 - 1 in the URL, got more')
  return number
}
