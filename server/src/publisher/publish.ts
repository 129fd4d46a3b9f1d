// Publishes a batch to all servers, so that they stay equal. A second run continues where the first stopped. It stops if the servers
// differ. A server may be an attacker: the publisher builds on and signs only what its own record knows.

import {
  type BatchEncoding,
  type BatchSignature,
  checkFollows,
  decodeBatch,
  encodeBatch,
  equalBytes,
  hasOneServer,
  hasRows,
  type Manifest,
  signedBatchBytes,
  signedBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { PublishError } from '../base/errors.js'
import type { KeyPair } from './files.js'
import { defaultHeadroom, whyGenerationPays } from './growth.js'
import type { PublisherRecord } from './record.js'
import { type KnownManifest, PublishedServer } from './server.js'

export interface PublishOptions {
  /** base URLs of the servers, at least two */
  readonly servers: readonly string[]
  /** names for messages instead of the URLs */
  readonly names?: readonly string[] | undefined
  /** signs the batch and the new manifest */
  readonly key: KeyPair
  /** whether the last of `servers` is your own copy. Without one, no hint for lookups with one server is signed. Default: false */
  readonly own?: boolean | undefined
  /** the publisher's earlier work; it builds on nothing else */
  readonly record: PublisherRecord
  /** except on this manifest (hash in hex), for example the one you built */
  readonly trustBase?: string | undefined
  /** one JSON object a line; undefined: check and sign the newest epoch */
  readonly operations?: Uint8Array | undefined
  /** Earlier batches, in any order. Those that a server lacks are sent to it again; nothing new is sent. */
  readonly missed?: readonly Uint8Array[] | undefined
  /** encoding of values; default: utf8 */
  readonly encoding?: BatchEncoding | undefined
  /** when the new manifest expires, in seconds since 1970; default: 0, never */
  readonly expires?: number | undefined
  /** begin a new generation after the batch if it pays, except with Pointproofs; default: true */
  readonly generation?: boolean | undefined
}

export interface PublishSummary {
  readonly generation: number
  readonly epoch: number
  /** hex */
  readonly manifestHash: string
  readonly changes: number
  /** all servers had the batch already */
  readonly repeated: boolean
  /** why a new generation pays; undefined: it does not */
  readonly growth?: string | undefined
  /** this is the first epoch of a new generation; with Pointproofs you have to build it */
  readonly began: boolean
  /** with `missed`: the most epochs that a server lacked and now has */
  readonly caughtUp?: number | undefined
}

interface Target {
  readonly generation: number
  readonly epoch: number
  /** the epoch that the batch makes or made */
  readonly changed: number
  readonly body?: Uint8Array<ArrayBuffer>
}

/**
 * Publishes a batch to all servers, or none, and signs the newest manifest. You may always run it again with the same operations.
 * @throws {PublishError} which names the server and its reason
 * @example
 * const record = await PublisherRecord.open('publisher.key.record')
 * const key = await readKeyFile('publisher.key')
 * await publish({ servers, key, record, operations: await readFile('changes.jsonl') })
 */
export async function publish(options: PublishOptions): Promise<PublishSummary> {
  const core = await loadCore()
  const { blake3 } = core
  const hashOf = (bytes: Uint8Array) => toHex(blake3(bytes))
  const { record, key } = options
  if (options.expires !== undefined && options.operations === undefined) {
    throw new PublishError('--valid-days: expected a batch, got none; only a batch makes a manifest with a new expiry')
  }
  const servers = options.servers.map((url, i) => new PublishedServer(url, options.names?.[i]))
  if (new Set(servers.map(({ url }) => new URL(url).origin)).size < servers.length) {
    throw new PublishError('--servers: expected a server of each operator, got one origin twice; name each server once')
  }
  const caughtUp = options.missed && (await catchUp(options.missed))
  await completeGeneration()
  const newest = await ofAll(servers, server => server.newest())
  newest.forEach(checkHint)
  if (options.operations !== undefined && !options.expires && newest.some(({ manifest }) => hasOneServer(manifest))) {
    throw new PublishError(
      '--valid-days: expected it for lookups with one server, got none; give the days, for example 7',
    )
  }
  const target = await findTarget()
  if (target.body !== undefined) await send(target.body)
  const repeated = target.body === undefined
  let agreed = await verify(target.generation, target.epoch)
  const { changes } = await servers[0]!.status(target.changed)
  const growth = options.operations === undefined ? undefined : whyGenerationPays(core, agreed.manifest)
  // A new generation needs new openings for all records, which `keyhush build` makes.
  const isBuilt = hasRows(agreed.manifest)
  const began = growth !== undefined && options.generation !== false && !isBuilt
  if (began) {
    const { generation, epoch } = agreed.manifest
    await send(generationAfter(agreed, options.expires ?? 0))
    agreed = await verify(generation + 1, epoch + 1, agreed)
  }
  await sign(agreed)
  const { generation, epoch } = agreed.manifest
  return { generation, epoch, manifestHash: hashOf(agreed.bytes), changes, repeated, growth, began, caughtUp }

  /** Sends a new generation to the other servers if an interrupted run sent it to some alone. */
  async function completeGeneration(): Promise<void> {
    const { leader, ahead, behind } = compared(await ofAll(servers, server => server.newest()))
    checkNotBack(ahead.manifest)
    if (ahead.manifest.epoch !== behind.manifest.epoch + 1 || !beginsGeneration(ahead.manifest)) return
    const body = generationAfter(behind, ahead.manifest.expires)
    const { batch } = await leader.status(ahead.manifest.epoch)
    // One server alone says the expiry, so send the batch only if the record has it.
    if (batch !== hashOf(body) || !record.hasBatch(toHex(behind.manifest.databaseId), batch)) return
    await checkBase(behind)
    await send(body)
  }

  /** Who is ahead and who is behind, the first of each. Those at one epoch must show the same. */
  function compared(newest: readonly KnownManifest[]) {
    const epochs = newest.map(({ manifest }) => manifest.epoch)
    const [first, last] = [epochs.indexOf(Math.max(...epochs)), epochs.indexOf(Math.min(...epochs))]
    const [ahead, behind] = [newest[first]!, newest[last]!]
    for (const { manifest, bytes } of newest) {
      if (!equalBytes(manifest.databaseId, ahead.manifest.databaseId)) diverged('the servers have different databases')
      const same = [ahead, behind].find(one => one.manifest.epoch === manifest.epoch)
      if (same !== undefined && !equalBytes(bytes, same.bytes)) {
        diverged(`the manifests of epoch ${manifest.epoch} differ`)
      }
    }
    const apart = ahead.manifest.epoch - behind.manifest.epoch
    return { leader: servers[first]!, follower: servers[last]!, ahead, behind, apart }
  }

  /** Throws if the manifest names a hint that no copy of the publisher's own has made. */
  function checkHint({ manifest }: KnownManifest): void {
    if (options.own || !hasOneServer(manifest)) return
    const why = 'a hint for lookups with one server must be made from your own copy before you sign it'
    throw new PublishError(`--store: expected it, got none: ${why}; publish at one server, with --store`)
  }

  function checkNotBack({ databaseId, epoch }: Manifest): void {
    const known = record.newestEpoch(toHex(databaseId))
    if (epoch >= known) return
    throw new PublishError(
      `the servers are at epoch ${epoch}, and your record (${record.place}) has epoch ${known}: they have gone back. ` +
        'Nothing was sent. Ask all operators what they restored',
    )
  }

  /**
   * Sends servers the batches that they lack, and returns how many the furthest behind lacked. That server is first. Only the other
   * server says which batch made an epoch, so each batch must be in the record: a wrong one would separate the servers for ever.
   */
  async function catchUp(batches: readonly Uint8Array[]): Promise<number> {
    const { leader, follower, ahead, behind, apart } = compared(await ofAll(servers, server => server.newest()))
    checkNotBack(ahead.manifest)
    if (!(await isOwn(ahead))) notOwn(ahead)
    let at = behind
    for (const next of await chainBetween(leader, behind, ahead)) {
      const { epoch } = next.manifest
      const { batch } = await leader.status(epoch)
      const body = bodiesFor(at, next.manifest, batches).find(body => hashOf(body) === batch)
      if (body === undefined) {
        throw new PublishError(
          `expected the batch that made epoch ${epoch} at ${leader.name}, got others. Give its file unchanged, with the same ` +
            '--value-encoding; or begin a new store from `keyhush export`. ' +
            `${follower.name} is at epoch ${at.manifest.epoch}`,
        )
      }
      if (!record.hasBatch(toHex(next.manifest.databaseId), batch)) {
        throw new PublishError(
          `epoch ${epoch} at ${leader.name}: expected a batch of your record (${record.place}), got another. ` +
            `It was not sent: ${follower.name} is at epoch ${at.manifest.epoch}. Begin a new store there from \`keyhush export\``,
        )
      }
      const { manifest } = await follower.publish(body, signatureFor(body))
      if (manifest !== hashOf(next.bytes)) {
        diverged(`one batch made the manifests ${hashOf(next.bytes)} and ${manifest}`)
      }
      at = next
    }
    if (servers.length > 2 && apart > 0) await catchUp(batches) // others may be behind
    return apart
  }

  /** The manifests after `from` up to `to`; each names the one before it. */
  async function chainBetween(
    server: PublishedServer,
    from: KnownManifest,
    to: KnownManifest,
  ): Promise<readonly KnownManifest[]> {
    const chain = [from]
    for (let last = from; last.manifest.epoch < to.manifest.epoch; last = chain.at(-1)!) {
      const { generation, epoch } = last.manifest
      const next =
        (await server.manifestIfKnown(generation, epoch + 1)) ??
        (await server.manifestIfKnown(generation + 1, epoch + 1))
      if (next === undefined) {
        throw new PublishError(
          `${server.name}: expected the manifest of epoch ${epoch + 1}, got none any more; begin a new store at the ` +
            'other server from `keyhush export` of this one',
        )
      }
      chain.push(next)
    }
    for (const [i, { manifest }] of chain.slice(1).entries()) {
      if (toHex(manifest.previousManifest) !== hashOf(chain[i]!.bytes)) {
        diverged(`epoch ${manifest.epoch} of ${server.name} does not follow epoch ${manifest.epoch - 1} of the other`)
      }
    }
    if (!equalBytes(chain.at(-1)!.bytes, to.bytes)) diverged(`${server.name} shows several manifests of one epoch`)
    return chain.slice(1)
  }

  /** The batches that may have made the next manifest. */
  function bodiesFor(before: KnownManifest, { epoch, expires }: Manifest, batches: readonly Uint8Array[]) {
    const hash = blake3(before.bytes)
    const made = batches.map(operations => batchFor(before.manifest, epoch, expires, hash, operations))
    return [...made, generationAfter(before, expires)]
  }

  function generationAfter({ manifest, bytes }: KnownManifest, expires: number): Uint8Array<ArrayBuffer> {
    const operation = { op: 'generation', headroom: defaultHeadroom(manifest) }
    const operations = new TextEncoder().encode(`${JSON.stringify(operation)}\n`)
    return batchFor(manifest, manifest.epoch + 1, expires, blake3(bytes), operations, 'utf8')
  }

  /** The epoch to reach, and what to send; no body: all servers have the batch. */
  async function findTarget(): Promise<Target> {
    const { leader, follower, ahead, behind, apart } = compared(newest)
    const { manifest, bytes } = ahead
    if (apart > 1) {
      throw new PublishError(
        `${leader.name} is at epoch ${manifest.epoch}, and ${follower.name} at ${behind.manifest.epoch}; first send the second ` +
          'one its missing batches (publish --catch-up), or begin a new store there from `keyhush export` of the first',
      )
    }
    if (apart !== 0 && toHex(manifest.previousManifest) !== hashOf(behind.bytes)) {
      diverged(
        `epoch ${manifest.epoch} of ${leader.name} does not follow epoch ${behind.manifest.epoch} of ${follower.name}`,
      )
    }
    const { generation, epoch } = manifest
    if (options.operations === undefined) {
      if (apart !== 0) throw new PublishError(`${follower.name} lacks epoch ${epoch}; first publish its batch again`)
      await checkBase(ahead)
      return { generation, epoch, changed: epoch }
    }
    // The batch may have made the newest epoch already, or the one before a new generation.
    // Ask all servers that have it: a new store does not know which batch made its first epoch.
    let body: Uint8Array<ArrayBuffer> | undefined
    for (const [i, { manifest: shown }] of newest.entries()) {
      if (shown.epoch === epoch) body ??= await madeBy(servers[i]!, manifest, options.operations)
    }
    if (body !== undefined) {
      if (apart === 0) {
        await checkMade(manifest, body)
        return { generation, epoch, changed: epoch }
      }
      checkExpiry(manifest, body)
      await checkBase(behind)
      return { generation, epoch, changed: epoch, body }
    }
    if (apart === 0 && beginsGeneration(manifest) && epoch > 2) {
      const last = await leader.manifestIfKnown(generation - 1, epoch - 1)
      const before = last && (await madeBy(leader, last.manifest, options.operations))
      if (last !== undefined && before !== undefined) {
        await checkMade(last.manifest, before)
        await checkBase(ahead)
        return { generation, epoch, changed: epoch - 1 }
      }
    }
    if (apart !== 0) {
      throw new PublishError(
        `${leader.name} has epoch ${epoch} from another batch, which ${follower.name} lacks; first ` +
          'publish that batch again',
      )
    }
    await checkBase(ahead)
    const next = batchFor(manifest, epoch + 1, options.expires ?? 0, blake3(bytes), options.operations)
    const after = isGeneration(options.operations) ? generation + 1 : generation
    return { generation: after, epoch: epoch + 1, changed: epoch + 1, body: next }
  }

  /** The batch of these operations, if it made this manifest. */
  async function madeBy(
    server: PublishedServer,
    manifest: Manifest,
    operations: Uint8Array,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { generation, epoch, expires, previousManifest } = manifest
    if (epoch === 1) return undefined
    const before = { ...manifest, generation: beginsGeneration(manifest) ? generation - 1 : generation }
    const body = batchFor(before, epoch, expires, previousManifest, operations)
    const { batch } = await server.status(epoch)
    return batch === hashOf(body) ? body : undefined
  }

  function batchFor(
    { databaseId, generation }: Manifest,
    epoch: number,
    expires: number,
    previousManifest: Uint8Array,
    operations: Uint8Array,
    encoding = options.encoding ?? 'utf8',
  ): Uint8Array<ArrayBuffer> {
    return encodeBatch({ databaseId, generation, epoch, expires, previousManifest, operations, encoding })
  }

  /** Throws unless this publisher made the manifest. */
  async function checkBase(known: KnownManifest): Promise<void> {
    if (!(await isOwn(known)) && !(await isSent(known.manifest))) notOwn(known)
    await record.addManifest(recorded(known))
  }

  async function isOwn(known: KnownManifest): Promise<boolean> {
    const { databaseId, hash } = recorded(known)
    if (record.hasManifest(databaseId, hash) || options.trustBase === hash) return true
    return (await ofAll(servers, server => server.hasSigned(known, key.publicKey))).includes(true)
  }

  function notOwn(known: KnownManifest): never {
    const { epoch, hash } = recorded(known)
    throw new PublishError(
      `epoch ${epoch} of the servers (manifest hash ${hash}) is not known to be yours: your key has not signed it, ` +
        `and your record (${record.place}) does not have it. Nothing was sent or signed. If you published it with ` +
        'another key, give the record of that key with --record. If you built it, give the hash that `build` ' +
        'printed with --trust-base',
    )
  }

  function recorded({ manifest, bytes }: KnownManifest) {
    return { databaseId: toHex(manifest.databaseId), epoch: manifest.epoch, hash: hashOf(bytes) }
  }

  /** Whether a batch in the record made it on a known manifest. All servers must say so: one may lie. */
  async function isSent({ databaseId, epoch, previousManifest }: Manifest): Promise<boolean> {
    const id = toHex(databaseId)
    if (epoch === 1 || !record.hasManifest(id, toHex(previousManifest))) return false
    const statuses = await ofAll(servers, server => server.status(epoch))
    return statuses.every(({ batch }) => record.hasBatch(id, batch))
  }

  /** Throws unless all servers say that this batch made their epoch on a known manifest. */
  async function checkMade(manifest: Manifest, body: Uint8Array): Promise<void> {
    const { databaseId, epoch, previousManifest } = manifest
    for (const [i, { batch }] of (await ofAll(servers, server => server.status(epoch))).entries()) {
      if (batch !== hashOf(body)) {
        throw new PublishError(
          `${servers[i]!.name}: expected epoch ${epoch} from the same batch as at the other servers, got another` +
            `${batch === '' ? ', or its store is new and cannot tell; publish without a batch to see whether they agree' : ''}` +
            '. Nothing was sent or signed',
        )
      }
    }
    checkExpiry(manifest, body)
    const base = toHex(previousManifest)
    if (record.hasManifest(toHex(databaseId), base) || options.trustBase === base) return
    const generation = beginsGeneration(manifest) ? manifest.generation - 1 : manifest.generation
    const before = await servers[0]!.manifest(generation, epoch - 1)
    if (hashOf(before.bytes) !== base) diverged(`epoch ${epoch} does not name the one before`)
    await checkBase(before)
  }

  /** Throws unless the expiry is the wanted one, or the record has the batch. */
  function checkExpiry({ databaseId, epoch, expires }: Manifest, body: Uint8Array): void {
    if (expires === (options.expires ?? 0) || record.hasBatch(toHex(databaseId), hashOf(body))) return
    throw new PublishError(
      `epoch ${epoch} of the servers expires at ${expires}, which your record (${record.place}) does not have. ` +
        'Nothing was sent or signed. Give the record of its publisher with --record',
    )
  }

  /** Sends to all servers. One that has the batch replies the same. */
  async function send(body: Uint8Array<ArrayBuffer>): Promise<void> {
    const { databaseId, epoch } = decodeBatch(body)
    const hash = hashOf(body)
    await record.addBatch({ databaseId: toHex(databaseId), epoch, hash })
    const signature = signatureFor(body)
    const statuses = await ofAll(servers, server => server.publish(body, signature))
    if (statuses.some(({ batch }) => batch !== hash)) diverged('a server made another batch than it was sent')
    const made = [...new Set(statuses.map(({ manifest }) => manifest))]
    if (made.length > 1) diverged(`one batch made the manifests ${made.join(' and ')}`)
  }

  function signatureFor(body: Uint8Array<ArrayBuffer>): BatchSignature {
    const { databaseId, previousManifest } = decodeBatch(body)
    const batchHash = blake3(body)
    const signature = ed25519.sign(signedBatchBytes({ databaseId, previousManifest, batchHash }), key.secretKey)
    return { publicKey: key.publicKey, previousManifest, batchHash, signature }
  }

  /** The manifest of an epoch, if all servers show the same and it follows the one before. */
  async function verify(generation: number, epoch: number, predecessor?: KnownManifest): Promise<KnownManifest> {
    const [a, ...others] = (await ofAll(servers, server => server.manifest(generation, epoch))) as [KnownManifest]
    if (others.some(({ bytes }: KnownManifest) => !equalBytes(a.bytes, bytes)))
      diverged(`the manifests of epoch ${epoch} differ`)
    const before = predecessor ?? newest.find(({ manifest }) => manifest.epoch === epoch - 1)
    if (before !== undefined) {
      try {
        checkFollows(before.manifest, a.manifest)
      } catch (error) {
        if (error instanceof WireError) diverged(`epoch ${epoch} cannot follow the previous one: ${error.message}`)
        throw error
      }
      if (toHex(a.manifest.previousManifest) !== hashOf(before.bytes))
        diverged(`epoch ${epoch} does not name the one before`)
    }
    await record.addManifest(recorded(a))
    return a
  }

  async function sign(known: KnownManifest): Promise<void> {
    checkHint(known) // servers that lie together may show one now that they did not show before
    const { manifest, bytes } = known
    const signature = toHex(ed25519.sign(signedBytes(bytes), key.secretKey))
    const { generation, epoch } = manifest
    await ofAll(servers, server => server.sign({ publicKey: toHex(key.publicKey), generation, epoch, signature }))
  }
}

/** Whether this is the first epoch of a later generation. */
function beginsGeneration({ epoch, updateListBytes }: Manifest): boolean {
  return epoch > 1 && updateListBytes === 0
}

/** Whether the batch begins a generation. The servers refuse malformed batches. */
function isGeneration(operations: Uint8Array): boolean {
  try {
    const only = JSON.parse(new TextDecoder().decode(operations)) as { op?: unknown } | null
    return only?.op === 'generation'
  } catch {
    return false
  }
}

function diverged(how: string): never {
  throw new PublishError(
    `THE SERVERS HAVE DIVERGED: ${how}. Clients will refuse them. Nothing more was sent. Find out which one is wrong.`,
  )
}

/** Asks all servers at once and waits for all. The error has the failures of all. */
async function ofAll<T>(
  servers: readonly PublishedServer[],
  work: (server: PublishedServer) => Promise<T>,
): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(servers.map(work))
  const failures = outcomes.filter(outcome => outcome.status === 'rejected').map(({ reason }) => reason as unknown)
  const unexpected = failures.find(reason => !(reason instanceof PublishError))
  if (unexpected !== undefined) throw unexpected
  if (failures.length > 0) throw new PublishError((failures as PublishError[]).map(({ message }) => message).join('\n'))
  return outcomes.map(outcome => (outcome as PromiseFulfilledResult<T>).value)
}
