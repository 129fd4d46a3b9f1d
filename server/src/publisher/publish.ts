// Publishes a batch to all servers, so that they stay equal: a machine of the steps below. After a kill anywhere, a rerun begins with
// the first step and continues. A server may be an attacker: the publisher builds on and signs only what its own record knows.
//
// Three rules keep clients moving:
//   1. The newest epoch is signed everywhere before a batch is sent. So at most one epoch is unsigned. Where `signsForever` is false, those
//      that never expire are unsigned, too.
//   2. A signature is sent once all servers have the epoch.
//   3. With a log, no batch is sent while the newest epoch lacks a quorum of witnesses: servers answer two epochs, so clients that demand
//      witnesses stay at the one before.
// And three keep servers equal:
//   4. All servers check a batch before it is sent. They do not check a generation that they make themselves: they would make it twice.
//   5. The same server, the first by its URL, always gets a batch first, and the others once that has it.
//   6. No other batch is sent for an epoch before a recorded one has made it, a refused one too: an operator may replay it.

import {
  type BatchEncoding,
  type BatchSignature,
  type BatchUse,
  decodeBatch,
  type EpochStatus,
  equalBytes,
  hasOneServer,
  hasRows,
  mayHave,
  type SignatureInfo,
  signedBytes,
  signedProofBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { checkFollows } from '@keyhush/protocol/chain'
import type { LoggedEpoch } from '@keyhush/protocol/log'
import { type Core, loadCore } from '@keyhush/wasm'
import { ed25519 } from '@noble/curves/ed25519.js'
import { PublishError } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import { PLAIN_KEY } from '../dataset/ingest/table.js'
import { addsOf, bodyOn, digestOf, generationOf, lineOf, signatureOf, type Wanted, wantedOf } from './batches.js'
import type { KeyPair } from './files.js'
import { defaultHeadroom, whyGenerationPays } from './growth.js'
import type { PublisherLog } from './log.js'
import type { PublisherRecord } from './record.js'
import { isSigned, PublishedServer } from './server.js'

/** What a run does, in order. Each is a method of `Publication`; docs/operations/publish.md has a row for each. */
export const STEPS = [
  ...(['agree', 'finish', 'check', 'sign', 'prove', 'judge'] as const),
  ...(['send', 'confirm', 'sign', 'prove', 'begin'] as const),
] as const
export type Step = (typeof STEPS)[number]

export interface PublishOptions {
  /** base URLs of the servers, at least two */
  readonly servers: readonly string[]
  /** names for messages instead of the URLs */
  readonly names?: readonly string[] | undefined
  /** each signs the manifests; the first signs batches */
  readonly key: KeyPair | readonly KeyPair[]
  /** whether the last of `servers` is your own copy. Without one, no public hint for lookups with one server is signed. Default: false */
  readonly own?: boolean | undefined
  /** the publisher's earlier work; it builds on nothing else */
  readonly record: PublisherRecord
  /** the log that gets each epoch, for apps that demand witnesses */
  readonly log?: PublisherLog | undefined
  /** except on this manifest (hash in hex), for example the one you built */
  readonly trustBase?: string | undefined
  /** one JSON object a line; undefined: check and sign the newest epoch */
  readonly operations?: Uint8Array | undefined
  /** hash (hex) of the manifest that the operations were made for; on another, nothing is sent */
  readonly onto?: string | undefined
  /** records that later batches of the same work add. Room is made for them too, and none is made because it pays. Undefined: no batch follows */
  readonly following?: number | undefined
  /** publish the operations also if they were published before, unless an earlier run was just finished; default: false */
  readonly again?: boolean | undefined
  /** encoding of values; default: utf8 */
  readonly encoding?: BatchEncoding | undefined
  /** when the new manifest expires, in seconds since 1970; default: 0, never */
  readonly expires?: number | undefined
  /** begin a new generation if it pays or a batch needs one, except with Pointproofs; default: true */
  readonly generation?: boolean | undefined
  /** whether an epoch that never expires is signed: a static host can show it to first visitors for ever; default: true */
  readonly signsForever?: boolean | undefined
  /** called when a step begins */
  readonly onStep?: ((step: Step) => void) | undefined
  /** default: the platform's */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
}

export interface PublishSummary {
  readonly generation: number
  readonly epoch: number
  /** hex */
  readonly manifestHash: string
  readonly changes: number
  /** nothing new was sent: there was no batch, or it was published before */
  readonly repeated: boolean
  /** why a new generation pays or was needed; undefined: neither */
  readonly growth?: string | undefined
  /** a new generation was begun; with Pointproofs you have to build it */
  readonly began: boolean
  /** the most epochs that a server lacked and now has */
  readonly caughtUp: number
}

/**
 * Publishes a batch to all servers, or none, and signs the newest manifest. You may always run it again with the same operations.
 * @throws {PublishError} which names the server and its reason; its `exit` says what to do
 * @example
 * const record = await PublisherRecord.open('publisher.key.record')
 * const key = await readKeyFile('publisher.key')
 * await publish({ servers, key, record, operations: await readFile('changes.jsonl') })
 */
export async function publish(options: PublishOptions): Promise<PublishSummary> {
  const publication = new Publication(options, await loadCore())
  for (const step of STEPS) {
    options.onStep?.(step)
    await publication[step]()
  }
  return await publication.summary()
}

/** The newest epoch, which is this publisher's, and the servers that have it, your own copy first. Sends and writes nothing. */
export async function newestOf(options: PublishOptions): Promise<NewestEpoch> {
  const publication = new Publication(options, await loadCore())
  await publication.agree()
  return await publication.newest()
}

export interface NewestEpoch extends KnownManifest {
  readonly servers: readonly PublishedServer[]
}

/** A batch of it may be at one server, and is signed once all have it. */
const OTHER_RUN = 'If another run with this key is under way, wait until it ends and run this again'

class Publication implements Record<Step, () => Promise<void>> {
  readonly #options: PublishOptions
  readonly #core: Core
  /** the one that gets batches first, then the others; your own copy is the last */
  readonly #servers: readonly PublishedServer[]
  readonly #keys: readonly KeyPair[]
  readonly #record: PublisherRecord
  readonly #now: () => number
  /** what is to be published; undefined: nothing, or nothing any more */
  #wanted: Wanted | undefined
  /** the newest epoch that any server shows, and after `finish` all do */
  #tip!: KnownManifest
  /** from the oldest newest epoch of a server to the tip */
  #chain: readonly KnownManifest[] = []
  /** an earlier run had left something: this one sent or signed its epoch */
  #hadLeft = false
  /** the newest epoch of each server */
  #at = new Map<PublishedServer, KnownManifest>()
  /** what became of that */
  #statuses = new Map<PublishedServer, EpochStatus>()
  #signatures = new Map<PublishedServer, readonly SignatureInfo[]>()
  /** what became of the batch that is being sent */
  #sent: EpochStatus | undefined
  /** of the batch that was asked for */
  #made: EpochStatus | undefined
  /** the epoch that it made in an earlier run */
  #madeBefore: number | undefined
  #growth: string | undefined
  #began = false

  constructor(options: PublishOptions, core: Core) {
    const { operations, encoding = 'utf8', expires, key } = options
    if (expires !== undefined && operations === undefined) {
      throw new PublishError(
        '--valid-days: expected a batch, got none; only a batch makes a manifest with a new expiry',
      )
    }
    const servers = options.servers.map((url, i) => new PublishedServer(url, options.names?.[i], options.fetch))
    if (new Set(servers.map(({ url }) => new URL(url).origin)).size < servers.length) {
      throw new PublishError(
        '--servers: expected a server of each operator, got one origin twice; name each server once',
      )
    }
    const copy = options.own ? servers.splice(-1) : []
    this.#servers = [...servers.sort((a, b) => (a.url < b.url ? -1 : 1)), ...copy]
    this.#options = options
    this.#core = core
    this.#keys = Array.isArray(key) ? (key as readonly KeyPair[]) : [key as KeyPair]
    this.#record = options.record
    this.#now = options.now ?? (() => Date.now() / 1000)
    this.#wanted = operations && wantedOf(operations, encoding, expires ?? 0)
  }

  /** Asks all servers how far they are. They must be on one chain, and not behind the record. */
  async agree(): Promise<void> {
    const tips = await ofAll(this.#servers, server => server.newest())
    for (const [i, server] of this.#servers.entries()) this.#at.set(server, tips[i]!)
    const statuses = await ofAll(this.#servers, server => server.status(this.#at.get(server)!.manifest.epoch))
    const signatures = await ofAll(this.#servers, server => server.signatures())
    for (const [i, server] of this.#servers.entries()) {
      this.#statuses.set(server, statuses[i]!)
      this.#signatures.set(server, signatures[i]!)
    }
    const epochs = tips.map(({ manifest }) => manifest.epoch)
    this.#tip = tips[epochs.indexOf(Math.max(...epochs))]!
    const { databaseId, epoch } = this.#tip.manifest
    if (tips.some(({ manifest }) => !equalBytes(manifest.databaseId, databaseId))) {
      diverged('the servers have different databases')
    }
    const known = this.#record.newestEpoch(toHex(databaseId))
    if (epoch < known) {
      const haveIt = await ofAll(this.#servers, server => server.status(known).catch(() => undefined))
      if (haveIt.every(status => status !== undefined)) {
        const came = `they have stored it, and show epoch ${epoch} until their replicas have loaded it; run it again`
        throw new PublishError(`the servers: expected epoch ${known}, got an older one: ${came}`, 3)
      }
      throw new PublishError(
        `the servers are at epoch ${epoch}, and your record (${this.#record.place}) has epoch ${known}: they have gone back. ` +
          'Nothing was sent. Ask all operators what they restored',
        4,
      )
    }
    this.#chain = await this.#chainFrom(tips[epochs.indexOf(Math.min(...epochs))]!)
    for (const { manifest, bytes } of tips) {
      const same = this.#chain.find(known => known.manifest.epoch === manifest.epoch)
      if (same === undefined || !equalBytes(same.bytes, bytes))
        diverged(`the manifests of epoch ${manifest.epoch} differ`)
    }
  }

  /** Sends servers that are behind the recorded batches that they lack, and all what was recorded for the next epoch. Signs what comes of them. */
  async finish(): Promise<void> {
    for (const [i, next] of this.#chain.slice(1).entries()) {
      await this.#expectOwn(this.#tip) // before anything is sent
      this.#hadLeft = true
      const { epoch } = next.manifest
      const behind = this.#servers.filter(server => this.#at.get(server)!.manifest.epoch < epoch)
      const body = await this.#batchOf(next)
      const before = this.#chain[i]!
      await ofAll(behind, server => this.#signAt(server, before)) // the tip has a step of its own
      const statuses = await ofAll(behind, server => server.publish(body, this.#signatureFor(body), true))
      for (const { manifest } of statuses) {
        if (manifest !== this.#hash(next.bytes)) {
          diverged(`one batch made the manifests ${this.#hash(next.bytes)} and ${manifest}`)
        }
      }
      await this.#recordManifest(next, this.#hash(body))
    }
    await this.#sendLeft()
  }

  /** Holds the tip to the record, and the wanted expiry to all clocks. Records the tip. */
  async check(): Promise<void> {
    await this.#checkTip()
    if (this.#wanted === undefined) return
    const { onto } = this.#options
    if (onto !== undefined && onto !== this.#hash(this.#tip.bytes)) {
      const came = 'another: somebody else published meanwhile. Nothing was sent; run it again'
      throw new PublishError(`the servers: expected the epoch that these operations were made for, got ${came}`, 3)
    }
    checkSealed(this.#tip, this.#wanted)
    this.#checkExpiry(this.#wanted)
  }

  async #checkTip(): Promise<void> {
    await this.#expectOwn(this.#tip)
    if (hasOneServer(this.#tip.manifest) && !this.#options.own) {
      const why = 'a public hint for lookups with one server must be made from your own copy before you sign it'
      throw new PublishError(`--store: expected it, got none: ${why}; publish at one server, with --store`)
    }
    await this.#recordManifest(this.#tip, this.#tipBatch)
    const { log } = this.#options
    if (log === undefined && this.#isLogged) {
      const why = 'servers have proofs of your epochs, and apps with `witnesses` stay at the last that has one'
      throw new PublishError(`--log: expected the log of the epochs before, got none: ${why}. Nothing was sent`)
    }
    log?.check(this.#logged) // nothing is signed before
    await log?.ask(this.#options.fetch)
  }

  /** Whether the publisher has a log. */
  get #isLogged(): boolean {
    const isOwn = (publicKey: string) => this.#keys.some(key => toHex(key.publicKey) === publicKey)
    return [...this.#signatures.values()].flat().some(({ publicKey, proof }) => proof !== undefined && isOwn(publicKey))
  }

  /** Signs the tip with each key, where that is not there. */
  async sign(): Promise<void> {
    if (!this.#maySign) return
    await ofAll(this.#servers, server => this.#signAt(server, this.#tip))
  }

  /** Puts the tip into the log, and sends the servers the proof that witnesses have seen it. */
  async prove(): Promise<void> {
    const { log, fetch } = this.#options
    if (log === undefined || !this.#maySign) return
    log.check(this.#logged)
    await log.append(this.#logged)
    await log.ask(fetch)
    const proof = log.proof()
    await ofAll(this.#servers, server => this.#proveAt(server, proof))
  }

  /** Whether the operations were published before: then nothing new is sent, or it fails. */
  async judge(): Promise<void> {
    const [wanted, { databaseId, epoch: newest, expires }] = [this.#wanted, this.#tip.manifest]
    if (wanted === undefined || wanted.does === 'renew' || (this.#options.again && !this.#hadLeft)) return
    const id = toHex(databaseId)
    const made = this.#record.publishedAt(id, digestOf(this.#core, wanted))
    if (made === undefined) return
    let quiet = newest // back over what changed no records: then the operations are still all there is
    while (quiet > made && this.#record.changesNothing(id, quiet)) quiet--
    if (quiet > made && this.#options.again) return
    if (quiet > made) {
      throw new PublishError(
        `these operations made epoch ${made}, and the servers are at epoch ${newest}. Nothing was sent. ` +
          'To publish them anew, add --again',
        5,
      )
    }
    if (expires === 0 ? !this.#maySign : expires <= this.#now()) {
      const how = expires === 0 ? 'would never expire' : 'has expired'
      throw new PublishError(
        `these operations made epoch ${made}, and epoch ${newest} ${how}. Nothing was sent. ` +
          'To renew it, publish the operation {"op":"renew"} with --valid-days',
        5,
      )
    }
    this.#madeBefore = made
    this.#wanted = undefined
  }

  /** Has all servers check the batch, records it, and sends it to the first, and once that has it to the others. */
  async send(): Promise<void> {
    if (this.#wanted === undefined) return
    try {
      await this.#checked(this.#wanted)
    } catch (error) {
      const { code, message } = error as PublishError
      // One server's word: it is believed of a batch that adds, and once a run.
      const isFull = code === 'batch_refused' && message.includes('begin a new') && addsOf(this.#wanted) > 0
      if (!isFull || this.#began) throw error
      await this.#makeRoom(this.#wanted, error as PublishError)
      await this.#checked(this.#wanted)
    }
    this.#sent = await this.#sendOnce(this.#wanted)
    this.#made ??= this.#sent
    this.#wanted = undefined
  }

  /** The manifest that all servers made of it must be one, and follow the tip, which it becomes. */
  async confirm(): Promise<void> {
    if (this.#sent === undefined) return
    const { generation, epoch, batch } = this.#sent
    const [first, ...others] = (await ofAll(this.#servers, server => server.made(generation, epoch))) as [KnownManifest]
    if (others.some(({ bytes }: KnownManifest) => !equalBytes(first.bytes, bytes))) {
      diverged(`the manifests of epoch ${epoch} differ`)
    }
    try {
      checkFollows(this.#tip.manifest, first.manifest)
    } catch (error) {
      if (error instanceof WireError) diverged(`epoch ${epoch} cannot follow the previous one: ${error.message}`)
      throw error
    }
    if (toHex(first.manifest.previousManifest) !== this.#hash(this.#tip.bytes)) {
      diverged(`epoch ${epoch} does not name the one before`)
    }
    await this.#recordManifest(first, batch)
    this.#tip = first
    this.#sent = undefined
  }

  /** Begins a new generation if it pays. */
  async begin(): Promise<void> {
    const { operations, generation = true, following } = this.#options
    if (
      operations === undefined ||
      following !== undefined ||
      this.#began ||
      wantedOf(operations, 'utf8', 0).does !== 'change'
    )
      return
    const { manifest } = this.#tip
    this.#growth = whyGenerationPays(this.#core, manifest)
    // With Pointproofs it needs new openings for all records, which `keyhush build` makes.
    if (this.#growth === undefined || !generation || hasRows(manifest)) return
    await this.#beginGeneration(defaultHeadroom(manifest), manifest.expires)
  }

  async newest(): Promise<NewestEpoch> {
    await this.#expectOwn(this.#tip)
    return { ...this.#tip, servers: [...this.#ofEpoch(this.#tip.manifest.epoch)].reverse() }
  }

  async summary(): Promise<PublishSummary> {
    const { generation, epoch } = this.#tip.manifest
    const changes = this.#made?.changes ?? (await this.#changesOf(this.#madeBefore ?? epoch))
    return {
      ...{ generation, epoch, changes, manifestHash: this.#hash(this.#tip.bytes) },
      ...{ repeated: this.#made === undefined, growth: this.#growth, began: this.#began },
      caughtUp: this.#chain.length - 1,
    }
  }

  /** The manifests from one that a server shows to the tip. Each names the one before. */
  async #chainFrom(low: KnownManifest): Promise<readonly KnownManifest[]> {
    const [ahead] = this.#ofEpoch(this.#tip.manifest.epoch) as [PublishedServer]
    const chain = [low]
    while (chain.at(-1)!.manifest.epoch < this.#tip.manifest.epoch) {
      const since = chain.at(-1)!.manifest.epoch
      const remedy = 'begin a new store at the server that is behind from `keyhush export` of this one'
      const more = await ahead.since(since, remedy)
      const wanted = more.filter(({ manifest }) => manifest.epoch <= this.#tip.manifest.epoch) // others may publish
      if (wanted.length === 0) break
      chain.push(...wanted)
    }
    for (const [i, { manifest }] of chain.slice(1).entries()) {
      if (toHex(manifest.previousManifest) === this.#hash(chain[i]!.bytes)) continue
      diverged(`epoch ${manifest.epoch} of ${ahead.name} does not follow epoch ${manifest.epoch - 1} of another server`)
    }
    return chain
  }

  get #maySign(): boolean {
    return this.#tip.manifest.expires !== 0 || this.#options.signsForever !== false
  }

  /** Servers whose newest epoch this is. */
  #ofEpoch(epoch: number): readonly PublishedServer[] {
    return this.#servers.filter(server => this.#at.get(server)!.manifest.epoch === epoch)
  }

  /** The recorded batch that made an epoch, by the word of the servers that have it. Another would separate the servers for ever. */
  async #batchOf({ manifest: { databaseId, epoch } }: KnownManifest): Promise<Uint8Array<ArrayBuffer>> {
    const holders = this.#servers.filter(server => this.#at.get(server)!.manifest.epoch >= epoch)
    const statuses = await ofAll(holders, server => server.status(epoch))
    const recorded = statuses.find(({ batch }) => this.#record.hasBatch(toHex(databaseId), batch))
    if (recorded !== undefined) return await this.#record.batch(toHex(databaseId), recorded.batch)
    throw new PublishError(
      `epoch ${epoch} at ${holders[0]!.name}: expected a batch of your record (${this.#record.place}), got another. ` +
        `Nothing was sent for it to the servers that lack it. ${OTHER_RUN}. Else give the record that has it with --record, or ` +
        'begin a new store there from `keyhush export`',
      4,
    )
  }

  /** The recorded batch that made the tip, if all servers that can tell say so. */
  get #tipBatch(): string | undefined {
    const { databaseId, epoch } = this.#tip.manifest
    const told = new Set(this.#ofEpoch(epoch).map(server => this.#statuses.get(server)!.batch))
    told.delete('') // the server's store began with this epoch
    const [batch = ''] = told
    return told.size === 1 && this.#record.hasBatch(toHex(databaseId), batch) ? batch : undefined
  }

  async #changesOf(epoch: number): Promise<number> {
    const known = await ofAll(this.#servers, server => server.status(epoch).catch(() => undefined)) // it may be of long ago
    return Math.max(0, ...known.map(status => status?.changes ?? 0))
  }

  async #expectOwn(known: KnownManifest): Promise<void> {
    if (await this.#isOwn(known)) return
    const { epoch, hash } = this.#recorded(known)
    throw new PublishError(
      `epoch ${epoch} of the servers: expected one that your record (${this.#record.place}) has or your key has signed, got ` +
        `another (manifest hash ${hash}). Nothing was sent or signed. ${OTHER_RUN}. If you published it with another key or ` +
        'elsewhere, give that record with --record. If you built it, give --trust-base the hash that `build` ' +
        'printed, or of a sharded database the one that /v1/info shows at all operators',
      4,
    )
  }

  /** Whether this publisher built, made or signed it, or else sent the batch that made it. */
  async #isOwn(known: KnownManifest, mayBeSent = true): Promise<boolean> {
    const { databaseId, hash } = this.#recorded(known)
    if (this.#record.hasManifest(databaseId, hash) || this.#options.trustBase === hash) return true
    const lists = [...this.#signatures.values()]
    if (this.#keys.some(key => lists.some(list => isSigned(known, list, key.publicKey)))) return true
    return mayBeSent && (await this.#isSent(known))
  }

  /** Whether a batch of this publisher made it, by the word of all servers that have it (one may lie), on a manifest of its own. */
  async #isSent(known: KnownManifest): Promise<boolean> {
    const { databaseId, generation, epoch, previousManifest, updateListBytes } = known.manifest
    const holders = this.#ofEpoch(epoch)
    const statuses = holders.map(server => this.#statuses.get(server)!)
    if (statuses.some(({ batch }) => batch === '')) return false
    const before = await holders[0]!.manifest(updateListBytes === 0 ? generation - 1 : generation, epoch - 1)
    if (this.#hash(before.bytes) !== toHex(previousManifest)) diverged(`epoch ${epoch} does not name the one before`)
    if (!(await this.#isOwn(before, false))) return false
    // What this call would send is as good as sent: an earlier run may have had another record.
    const body = this.#wanted && bodyOn(this.#core, before, this.#wanted)
    if (body !== undefined && statuses.every(({ batch }) => batch === this.#hash(body))) await this.#recordBatch(body)
    return statuses.every(({ batch }) => this.#record.hasBatch(toHex(databaseId), batch))
  }

  #checkExpiry({ does, expires }: Wanted): void {
    const isHinted = hasOneServer(this.#tip.manifest)
    const before = this.#tip.manifest.expires
    if (expires === 0 && (isHinted || (does === 'renew' && before !== 0))) {
      const what = isHinted ? 'lookups with one server' : 'a renewal'
      throw new PublishError(`--valid-days: expected it for ${what}, got none; give the days, for example 7`)
    }
    if (does === 'renew' && expires < before) {
      throw new PublishError(
        `--valid-days: expected a later expiry than ${date(before)}, got ${date(expires)}; give more days`,
      )
    }
    const clocks = this.#servers.map(({ name, clock }) => ({ name, clock: clock ?? 0 }))
    if (expires === 0 || [this.#now(), ...clocks.map(({ clock }) => clock)].every(clock => clock < expires)) return
    const others = clocks.filter(({ clock }) => clock > 0).map(({ name, clock }) => `, ${name} says ${date(clock)}`)
    throw new PublishError(
      `the new epoch, which expires at ${date(expires)}, would have expired already: your clock says ${date(this.#now())}` +
        `${others.join('')}. Nothing was sent. Set the clock that is wrong`,
      4,
    )
  }

  async #signAt(server: PublishedServer, known: KnownManifest): Promise<void> {
    const { generation, epoch } = known.manifest
    for (const { publicKey, secretKey } of this.#keys) {
      if (isSigned(known, this.#signatures.get(server)!, publicKey)) continue
      const hex = toHex(ed25519.sign(signedBytes(known.bytes), secretKey))
      const signature = { publicKey: toHex(publicKey), generation, epoch, signature: hex }
      this.#hadLeft = true
      await server.sign(signature)
      this.#signatures.set(server, [...this.#signatures.get(server)!, signature]) // `sign` runs again at the end
    }
  }

  /** Sends the proof with each key's signature of the tip, where that is not there. */
  async #proveAt(server: PublishedServer, proof: string): Promise<void> {
    const { databaseId, epoch } = this.#tip.manifest
    const hash = this.#core.blake3(Buffer.from(proof))
    const message = signedProofBytes(databaseId, epoch, hash)
    const signatures = [...this.#signatures.get(server)!]
    for (const { publicKey, secretKey } of this.#keys) {
      const key = toHex(publicKey)
      const at = signatures.findIndex(each => each.publicKey === key && each.epoch === epoch)
      const { proof: before, ...signature } = signatures[at]!
      if (before === toHex(hash)) continue
      await server.sign({ ...signature, proof, proofSignature: toHex(ed25519.sign(message, secretKey)) })
      signatures[at] = { ...signature, proof: toHex(hash) }
    }
    this.#signatures.set(server, signatures)
  }

  /** Sends a recorded batch on the tip that no server has taken yet, signs what comes of it, and makes that the tip. */
  async #sendLeft(): Promise<void> {
    const { databaseId, epoch } = this.#tip.manifest
    for (const hash of this.#record.batchesFor(toHex(databaseId), epoch + 1)) {
      const body = await this.#record.batch(toHex(databaseId), hash)
      const { previousManifest, operations } = decodeBatch(body)
      if (toHex(previousManifest) !== this.#hash(this.#tip.bytes)) continue
      this.#hadLeft = true
      await this.#checkTip()
      await this.sign()
      await this.prove()
      try {
        this.#sent = await this.#deliver(body, true)
        return await this.confirm()
      } catch (error) {
        const { code, message } = error as PublishError
        if (code !== 'batch_refused') throw error
        if (!this.#isChecked(wantedOf(operations, 'utf8', 0))) continue
        const place = `epoch ${epoch + 1} of your record (${this.#record.place})`
        throw new PublishError(
          `a batch for ${place}: expected the servers to take what they have checked, got ${message}. Nothing else was sent; ask its operator`,
          4,
        )
      }
    }
  }

  /** Whether servers are asked before what a batch would make. The shards of a new generation are built before. */
  #isChecked({ does }: Wanted): boolean {
    return does !== 'generation' || this.#tip.manifest.shards !== undefined
  }

  /** Throws PublishError unless all servers would take the batch. */
  async #checked(wanted: Wanted): Promise<void> {
    if (!this.#isChecked(wanted)) return
    const body = bodyOn(this.#core, this.#tip, wanted)
    const signature = this.#signatureFor(body, 'check')
    await ofAll(this.#servers, server => server.check(body, signature))
  }

  async #sendOnce(wanted: Wanted): Promise<EpochStatus> {
    const body = bodyOn(this.#core, this.#tip, wanted)
    await this.#recordBatch(body)
    return await this.#deliver(body)
  }

  /** Sends a batch to the first server, and once that has it to the others. */
  async #deliver(body: Uint8Array<ArrayBuffer>, isLate = false): Promise<EpochStatus> {
    const signature = this.#signatureFor(body)
    const [first, ...rest] = this.#servers as [PublishedServer]
    const made = await first.publish(body, signature, isLate)
    const others = await ofAll(rest, server => server.publish(body, signature, isLate)).catch((error: PublishError) => {
      if (error.code !== 'batch_refused') throw error
      throw new PublishError(`${first.name} took the batch, and another server did not: ${error.message}`, 4)
    })
    for (const { batch, manifest } of [made, ...others]) {
      if (batch !== this.#hash(body)) diverged('a server made another batch than it was sent')
      if (manifest !== made.manifest) diverged(`one batch made the manifests ${made.manifest} and ${manifest}`)
    }
    return made
  }

  /** Begins a generation with room for a batch that was refused because the generation is full. */
  async #makeRoom(wanted: Wanted, refusal: PublishError): Promise<void> {
    const { manifest } = this.#tip
    const headroom = Math.max(defaultHeadroom(manifest), addsOf(wanted) + (this.#options.following ?? 0))
    if (hasRows(manifest)) {
      const line = `keyhush build <data> --out next --succeeds manifest.bin --headroom ${headroom}`
      throw new PublishError(`${refusal.message}. With Pointproofs you build it: \`${line}\` with your other options`)
    }
    if (this.#options.generation === false) {
      const line = `echo '${lineOf(headroom)}' > generation.jsonl`
      throw new PublishError(`${refusal.message}: run \`${line}\`, publish generation.jsonl, then this batch again`)
    }
    this.#growth = 'the batch adds more than the generation has room for'
    await this.#beginGeneration(headroom, wanted.expires)
  }

  async #beginGeneration(headroom: number, expires: number): Promise<void> {
    this.#sent = await this.#sendOnce(generationOf(headroom, expires))
    await this.confirm()
    await this.sign()
    await this.prove()
    this.#began = true
  }

  /** Nothing is signed before. Throws if the record has another manifest of the epoch: the publisher may have signed that. */
  async #recordManifest(known: KnownManifest, batch: string | undefined): Promise<void> {
    const recorded = this.#recorded(known)
    const other = await this.#record.otherThan(recorded)
    if (other !== undefined) {
      const { epoch, hash } = recorded
      throw new PublishError(
        `epoch ${epoch}: expected the manifest of your record (${this.#record.place}), ${other}, got ${hash}: another run published ` +
          'that, from another copy. Nothing was signed. Begin a new --store from `keyhush export` of what clients get',
        4,
      )
    }
    await this.#record.addManifest({ ...recorded, batch })
  }

  async #recordBatch(body: Uint8Array): Promise<void> {
    const { databaseId, epoch, operations, encoding, expires } = decodeBatch(body)
    const wanted = wantedOf(operations, encoding, expires)
    const names = { databaseId: toHex(databaseId), hash: this.#hash(body), digest: digestOf(this.#core, wanted) }
    await this.#record.addBatch({ ...names, epoch, does: wanted.does }, body)
  }

  #signatureFor(body: Uint8Array, use: BatchUse = 'batch'): BatchSignature {
    const [key] = this.#keys as [KeyPair]
    return signatureOf(this.#core, body, key, use)
  }

  #hash(bytes: Uint8Array): string {
    return toHex(this.#core.blake3(bytes))
  }

  /** The tip, as the log has it. */
  get #logged(): LoggedEpoch {
    const { databaseId, epoch } = this.#tip.manifest
    return { databaseId, epoch, manifestHash: this.#core.blake3(this.#tip.bytes) }
  }

  #recorded({ manifest, bytes }: KnownManifest) {
    return { databaseId: toHex(manifest.databaseId), epoch: manifest.epoch, hash: this.#hash(bytes) }
  }
}

/** Throws PublishError for plain keys in a batch for a confidential database: servers would see them. */
function checkSealed({ manifest }: KnownManifest, { operations }: Wanted): void {
  const isFor = (key: string) => mayHave(manifest.databaseId, Buffer.from(key))
  if (isFor('')) return // the list is public
  for (const [i, line] of Buffer.from(operations).toString().split('\n').entries()) {
    const key = line.trim() === '' ? undefined : keyIn(line)
    if (key === undefined || isFor(key)) continue
    throw new PublishError(`line ${i + 1}: ${PLAIN_KEY}. Nothing was sent`)
  }
}

/** Empty: the line is no JSON object. */
function keyIn(line: string): string | undefined {
  try {
    const { key } = JSON.parse(line) as { key?: unknown }
    return typeof key === 'string' ? key : undefined
  } catch {
    return ''
  }
}

function date(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace(/\.\d+Z/, 'Z')
}

function diverged(how: string): never {
  throw new PublishError(
    `THE SERVERS HAVE DIVERGED: ${how}. Clients will refuse them. Nothing more was sent. Find out which one is wrong.`,
    4,
  )
}

/** Asks all servers at once and waits for all. The error has the failures of all; its exit code is of what weighs most. */
async function ofAll<T>(
  servers: readonly PublishedServer[],
  work: (server: PublishedServer) => Promise<T>,
): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(servers.map(work))
  const failures = outcomes.filter(outcome => outcome.status === 'rejected').map(({ reason }) => reason as PublishError)
  const unexpected = failures.find(reason => !(reason instanceof PublishError))
  if (unexpected !== undefined) throw unexpected
  const heaviest = ([4, 1, 3, 5] as const).map(exit => failures.find(error => error.exit === exit)).find(error => error)
  if (heaviest !== undefined) {
    throw new PublishError(failures.map(({ message }) => message).join('\n'), heaviest.exit, heaviest)
  }
  return outcomes.map(outcome => (outcome as PromiseFulfilledResult<T>).value)
}
