// Publishing one batch to both servers so that they stay equal: what is sent depends on where each of them is, running
// it again goes on where it stopped, and whatever shows that they have parted ends it loudly.

import { ed25519 } from '@noble/curves/ed25519.js'
import {
  type BatchEncoding,
  checkFollows,
  encodeBatch,
  equalBytes,
  type Manifest,
  signedBytes,
  toHex,
  WireError,
} from '@pirouette/protocol'
import { loadCore } from '@pirouette/wasm'
import { PublishError } from './errors.js'
import type { KeyPair } from './files.js'
import { type KnownManifest, PublishedServer } from './server.js'

export interface PublishOptions {
  /** base URLs of the two servers */
  readonly servers: readonly [string, string]
  readonly token: string
  /** operations, a JSON object a line; undefined: nothing new, only the newest epoch is checked and signed */
  readonly operations?: Uint8Array | undefined
  /** how values are written; default utf8 */
  readonly encoding?: BatchEncoding | undefined
  /** the manifest's expiry, seconds since 1970; default 0: none */
  readonly expires?: number | undefined
  /** signs the manifest that results */
  readonly key?: KeyPair | undefined
}

export interface PublishSummary {
  readonly generation: number
  readonly epoch: number
  /** hex */
  readonly manifestHash: string
  readonly changes: number
  /** the batch had been published before, to both */
  readonly repeated: boolean
}

type Both<T> = readonly [T, T]

/** Throws PublishError. Whatever happened, it is safe to run it again with the same operations. */
export async function publish(options: PublishOptions): Promise<PublishSummary> {
  const { blake3 } = await loadCore()
  const hashOf = (bytes: Uint8Array) => toHex(blake3(bytes))
  const servers = options.servers.map(
    url => new PublishedServer(url, options.token),
  ) as unknown as Both<PublishedServer>
  if (new URL(servers[0].url).origin === new URL(servers[1].url).origin) {
    throw new PublishError('the two servers are one: their URLs have the same origin')
  }
  const newest = await both(servers, server => server.newest())
  const target = await findTarget()
  if (target.body !== undefined) await send(target.body)
  const agreed = await verify(target.generation, target.epoch)
  if (options.key !== undefined) await sign(options.key, agreed)
  const { changes } = await servers[0].status(target.epoch)
  const { generation, epoch, body } = target
  return { generation, epoch, manifestHash: hashOf(agreed.bytes), changes, repeated: body === undefined }

  /** Which epoch it is to be, and what to send; no body: both have it already. */
  async function findTarget(): Promise<{ generation: number; epoch: number; body?: Uint8Array<ArrayBuffer> }> {
    const [a, b] = newest
    if (!equalBytes(a.manifest.databaseId, b.manifest.databaseId)) diverged('they serve different databases')
    const apart = a.manifest.epoch - b.manifest.epoch
    if (Math.abs(apart) > 1) {
      throw new PublishError(
        `the servers are at epochs ${a.manifest.epoch} and ${b.manifest.epoch}; publish what the one that is behind ` +
          'missed to it first, in order',
      )
    }
    const ahead = apart === -1 ? 1 : 0
    const { manifest, bytes } = newest[ahead]
    const behind = newest[1 - ahead]!
    if (apart === 0 && !equalBytes(bytes, behind.bytes)) diverged(`their manifests of epoch ${manifest.epoch} differ`)
    if (apart !== 0 && toHex(manifest.previousManifest) !== hashOf(behind.bytes)) {
      diverged(
        `epoch ${manifest.epoch} of ${servers[ahead].url} was not made on epoch ${behind.manifest.epoch} of the other`,
      )
    }
    const { generation, epoch } = manifest
    if (options.operations === undefined) {
      if (apart !== 0)
        throw new PublishError(`only ${servers[ahead].url} has epoch ${epoch}; publish its batch again first`)
      return { generation, epoch }
    }
    // Was it this very batch that made the newest epoch?
    if (epoch > 1 && manifest.updateListBytes > 0) {
      const body = batchFor(manifest, epoch, manifest.expires, manifest.previousManifest, options.operations)
      const { batch } = await servers[ahead].status(epoch)
      if (batch === hashOf(body)) return apart === 0 ? { generation, epoch } : { generation, epoch, body }
    }
    if (apart !== 0) {
      throw new PublishError(
        `${servers[ahead].url} has epoch ${epoch} from another batch, which ${servers[1 - ahead]!.url} lacks; publish ` +
          'that one again first',
      )
    }
    const body = batchFor(manifest, epoch + 1, options.expires ?? 0, blake3(bytes), options.operations)
    return { generation, epoch: epoch + 1, body }
  }

  function batchFor(
    { databaseId, generation }: Manifest,
    epoch: number,
    expires: number,
    previousManifest: Uint8Array,
    operations: Uint8Array,
  ): Uint8Array<ArrayBuffer> {
    const encoding = options.encoding ?? 'utf8'
    return encodeBatch({ databaseId, generation, epoch, expires, previousManifest, operations, encoding })
  }

  /** To both at once, also to one that has it: the reply is the same. */
  async function send(body: Uint8Array<ArrayBuffer>): Promise<void> {
    const statuses = await both(servers, server => server.publish(body))
    if (statuses[0].manifest !== statuses[1].manifest) {
      diverged(`of one batch they made the manifests ${statuses[0].manifest} and ${statuses[1].manifest}`)
    }
  }

  /** What both say that epoch is, if they say the same and it follows from what was there before. */
  async function verify(generation: number, epoch: number): Promise<KnownManifest> {
    const [a, b] = await both(servers, server => server.manifest(generation, epoch))
    if (!equalBytes(a.bytes, b.bytes)) diverged(`their manifests of epoch ${epoch} differ`)
    const before = newest.find(({ manifest }) => manifest.epoch === epoch - 1)
    if (before !== undefined) {
      try {
        checkFollows(before.manifest, a.manifest)
      } catch (error) {
        if (error instanceof WireError) diverged(`epoch ${epoch} cannot follow the one before: ${error.message}`)
        throw error
      }
      if (toHex(a.manifest.previousManifest) !== hashOf(before.bytes))
        diverged(`epoch ${epoch} does not name the one before`)
    }
    return a
  }

  async function sign({ publicKey, secretKey }: KeyPair, { manifest, bytes }: KnownManifest): Promise<void> {
    const signature = toHex(ed25519.sign(signedBytes(bytes), secretKey))
    const { generation, epoch } = manifest
    await both(servers, server => server.sign({ publicKey: toHex(publicKey), generation, epoch, signature }))
  }
}

function diverged(how: string): never {
  throw new PublishError(`THE SERVERS HAVE DIVERGED: ${how}. Clients will refuse them. Nothing more was sent.`)
}

/** Both, at the same time. If either fails, both have ended, and the error says how each of them did. */
async function both<T>(
  servers: Both<PublishedServer>,
  work: (server: PublishedServer) => Promise<T>,
): Promise<Both<T>> {
  const outcomes = await Promise.allSettled(servers.map(work))
  const failures = outcomes.filter(outcome => outcome.status === 'rejected').map(({ reason }) => reason as unknown)
  const unexpected = failures.find(reason => !(reason instanceof PublishError))
  if (unexpected !== undefined) throw unexpected
  if (failures.length > 0) throw new PublishError((failures as PublishError[]).map(({ message }) => message).join('\n'))
  return outcomes.map(outcome => (outcome as PromiseFulfilledResult<T>).value) as unknown as Both<T>
}
