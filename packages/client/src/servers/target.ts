// Which epoch a map should be at (docs/protocol.md, The target). Servers say in `/v1/info` which epochs they answer, each
// by its manifest's hash, and which are signed.
//
//   with a publisher's key   the newest signed epoch that any server shows. Its signature covers all before it: each manifest names the
//                            one before by its hash
//   without                  the newest epoch that as many servers show as have to agree
//
// A map that asks servers asks at an epoch that all it needs show: if some lack the newest, at the one before it, which the others still
// answer.

import {
  type EpochInfo,
  equalBytes,
  fromHex,
  type Info,
  LONGEST_PROOF_BYTES,
  type NewestEvent,
  toHex,
} from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { scoped } from '../base/abort.js'
import { ATTEMPTS, BACKOFF_MS, SLOW_MS, slowestMs } from '../base/constants.js'
import { ServerError, ServersDisagreeError, VersionError } from '../base/errors.js'
import type { OnEvent } from '../base/events.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { askAll, askOne, inTime } from './ask.js'
import { type Heard, infoOf } from './info.js'
import { type Agreed, compareEpochs, manifestOf } from './manifests.js'
import { inTurns, listed, namesOf } from './parties.js'
import type { Claimed, EpochId, Signing } from './signatures.js'
import type { StatsKeeper } from './stats.js'
import { BLOBS, getBounded, type Link, type Links } from './transport.js'

/** What is needed to follow. */
export interface Following {
  readonly core: Core
  readonly links: Links
  /** undefined: the servers' agreement suffices */
  readonly signing: Signing | undefined
  readonly stats: StatsKeeper
  readonly pause: Environment['pause']
  readonly lag: Lag
}

/** How the servers are asked. */
export interface Looking {
  /** how many of them have to show the epoch */
  readonly needed: number
  /** the one server that is asked what it shows; the others give what it does not send. Missing: all are */
  readonly only?: Link | undefined
  /** replies that were asked for already */
  readonly heard?: Pick<Heard, 'take'> | undefined
  /** manifests that were asked for already, by their server, and perhaps by what it shows */
  readonly manifests?: { get(server: string, shown?: EpochInfo): Promise<Agreed> | undefined } | undefined
  /** called with what each server says, before any of it is checked; may throw. Undefined: it has not replied in time */
  readonly onReplies?: ((replies: readonly (Info | undefined)[], links: Links) => void) | undefined
  /** where the map has been: it does not go back behind this epoch */
  readonly notBefore?: number | undefined
  /** whether servers that were late before are waited for as the others */
  readonly patient?: boolean | undefined
}

export interface Target {
  /** undefined: those that are needed show no epoch in common that the map may be at */
  readonly at: Agreed | undefined
  /** the servers that show it */
  readonly holders: Links
}

/** A newer signed epoch, and the servers that do not show it: they hold the map back. */
export class Lag {
  readonly #announce: OnEvent
  #epoch: number | undefined
  #servers: readonly string[] = []

  constructor(announce: OnEvent) {
    this.#announce = announce
  }

  /** `epoch` undefined: nobody holds the map back. Each epoch is announced once. */
  note(epoch: number | undefined, lacking: Links): void {
    const servers = lacking.map(({ server }) => server.name)
    if (epoch !== undefined && epoch !== this.#epoch) this.#announce({ type: 'behind', epoch, servers })
    this.#epoch = epoch
    this.#servers = servers
  }

  assertNone(): void {
    if (this.error !== undefined) throw this.error
  }

  /** What to throw if servers hold the map back; undefined: they do not. */
  get error(): VersionError | undefined {
    if (this.#epoch === undefined) return undefined
    const [first, ...others] = this.#servers as [string]
    const what = `expected epoch ${this.#epoch}, which the publisher has signed and another server shows`
    const came = others.length === 0 ? 'got an older one' : `got an older one, as from ${listed(others)}`
    return new VersionError(first, `${what}, ${came}; call again later, or ask the operator`, { retryable: true })
  }
}

/** What one server shows. */
interface View {
  readonly link: Link
  readonly info: Info
}

interface Signed extends Agreed {
  readonly shown: EpochInfo
}

/** Of one server, for one epoch under one key; an honest one has one. */
const MOST_SIGNATURES = 4

/** Of one server; one epoch is unsigned at the most, and what is older is another key's past. */
const MOST_CLAIMS = 2

/**
 * The epoch to be at. `base`: where the map is, if it is anywhere. Throws SignatureError, ServersDisagreeError, and the servers' failures if
 * too few reply.
 */
export async function findTarget(
  following: Following,
  base: Agreed | undefined,
  looking: Looking,
  signal: AbortSignal,
): Promise<Target> {
  return await scoped([signal], signal => new Look(following, base, looking, signal).target())
}

class Look {
  readonly #following: Following
  readonly #base: Agreed | undefined
  readonly #looking: Looking
  readonly #signal: AbortSignal
  #views: readonly View[] = []
  /** an epoch that servers have shown cannot be had any more, for they are further on */
  #isForgotten = false

  constructor(following: Following, base: Agreed | undefined, looking: Looking, signal: AbortSignal) {
    this.#following = following
    this.#base = base
    this.#looking = looking
    this.#signal = signal
  }

  /**
   * One server may have been asked before others had moved on: what they do not show in common is looked for again, and so is an epoch that
   * they have forgotten before its manifest was asked for.
   */
  async target(): Promise<Target> {
    for (let attempt = 1; ; attempt++) {
      this.#isForgotten = false
      try {
        const target = await this.#look(attempt === ATTEMPTS)
        if (target !== undefined) return target
      } catch (error) {
        if (!this.#isForgotten || attempt === ATTEMPTS) throw error
      }
    }
  }

  /** Undefined: it is not the last look, and another may find more. */
  async #look(isLast: boolean): Promise<Target | undefined> {
    const { links, signing, lag } = this.#following
    const { needed: enough, only, patient, heard, onReplies } = this.#looking
    const asked = only === undefined ? links : [only]
    const ask = async (link: Link, signal: AbortSignal) => await (heard?.take(link, signal) ?? infoOf(link, signal))
    const replies = await askAll(asked, { enough, patient }, this.#signal, ask)
    onReplies?.(replies, asked)
    this.#views = asked.flatMap((link, i) => (replies[i] === undefined ? [] : [{ link, info: replies[i] }]))
    const newest = signing && (await this.#newestSigned(signing))
    if (this.#isForgotten && !isLast) return undefined // what was found instead is older
    const shown = newest?.shown ?? this.#agreed()
    const holders = shown === undefined ? [] : this.#holders(shown)
    if ((holders.length < enough || this.#isPast(signing, shown)) && !isLast) return undefined
    if (shown === undefined) throw this.#apart()
    if (holders.length >= enough) {
      lag.note(undefined, [])
      return { at: newest ?? (await this.#manifestOf(shown)), holders }
    }
    const before = await this.#before(newest!, signing!)
    if (before.at === undefined) this.#assertAlike(newest!)
    lag.note(
      shown.epoch,
      links.filter(link => !holders.includes(link)),
    )
    return before
  }

  // ---- with a publisher's key -------------------------------------------------------------------------

  /**
   * The newest epoch that is signed under the key and has not expired. A claim of which nobody sends the manifest may be made up: unless the
   * caller is patient, older ones are looked at meanwhile. Throws SignatureError, ServersDisagreeError.
   */
  async #newestSigned(signing: Signing): Promise<Signed> {
    const claims = this.#views.map(({ info }) => claimsIn(info, signing))
    const unproved: Promise<Signed | undefined>[] = []
    let refused: Signed | undefined
    for (;;) {
      const [newest] = claims.flatMap(([first]) => first ?? []).sort(newestFirst)
      if (newest === undefined) break
      const ofEpoch = claims.filter(([first]) => first?.epoch === newest.epoch)
      const proofs = [...merged(ofEpoch.map(([first]) => first!))].map(claim => this.#verified(signing, claim))
      for (const proof of proofs) proof.catch(() => {}) // one may be left behind
      const [signed, other] = (await Promise.all(proofs.map(proof => this.#inTime(proof)))).filter(
        signed => signed !== undefined,
      )
      if (signed !== undefined && other !== undefined) {
        if (!equalBytes(signed.manifest.databaseId, other.manifest.databaseId)) throw this.#differ()
        throw this.#disagree(`the publisher has signed two manifests of epoch ${newest.epoch}`)
      }
      if (signed !== undefined && this.#isGood(signing, signed)) return signed
      refused ??= signed
      if (signed === undefined) unproved.push(...proofs)
      for (const claim of ofEpoch) claim.shift()
    }
    for (const proof of unproved) {
      const signed = await proof
      if (signed !== undefined && this.#isGood(signing, signed)) return signed
      refused ??= signed
    }
    if (refused === undefined) {
      const signatures = this.#views.flatMap(({ info }) => info.signatures)
      throw signing.unsigned(this.#shown.sort(newestFirst)[0], signatures)
    }
    signing.checkExpiry(refused.manifest)
    return refused // of another database
  }

  #isGood(signing: Signing, { manifest }: Signed): boolean {
    const { databaseId = manifest.databaseId } = this.#base?.manifest ?? {}
    return !signing.hasExpired(manifest) && equalBytes(manifest.databaseId, databaseId)
  }

  /** Undefined: the claim does not hold, or nobody sends its manifest. */
  async #verified(signing: Signing, shown: Claimed): Promise<Signed | undefined> {
    try {
      const agreed = await this.#manifestOf(shown)
      const signature = await signing.signatureOf(agreed, shown, this.#proof)
      return signature && { ...agreed, signature, shown }
    } catch (error) {
      if (error instanceof ServerError) return undefined
      throw error
    }
  }

  /** The proof with this hash, from the servers that name it; a text: why they do not send it. */
  readonly #proof = async (hash: string): Promise<Uint8Array | string> => {
    const named = this.#views.filter(({ info }) => info.signatures.some(({ proof }) => proof === hash))
    const get = (link: Link, signal: AbortSignal) => getBounded(link, BLOBS + hash, LONGEST_PROOF_BYTES, signal)
    try {
      return await askOne(
        named.map(({ link }) => link),
        {},
        this.#signal,
        get,
      )
    } catch (error) {
      if (error instanceof ServerError) return error.message
      throw error
    }
  }

  /** Undefined: it takes longer than all servers together may, if each is late; a patient caller waits all the same. */
  async #inTime<T>(work: Promise<T>): Promise<T | undefined> {
    const { links } = this.#following
    if (this.#looking.patient || links.length === 1) return await work
    const ms = links.length * (SLOW_MS + slowestMs(this.#base?.bytes.length ?? 0)) + BACKOFF_MS
    return await inTime(links[0]!.environment.clock, ms, work, this.#signal)
  }

  /** The epoch before, which `newest` names by its hash, if those that are needed show it, and the map may be there. */
  async #before({ manifest }: Agreed, signing: Signing): Promise<Target> {
    const hash = toHex(manifest.previousManifest)
    const shown = this.#shown.find(shown => shown.manifest === hash)
    const holders = shown === undefined ? [] : this.#holders(shown)
    if (shown === undefined || holders.length < this.#looking.needed) return { at: undefined, holders: [] }
    const at = await this.#manifestOf(shown)
    const mayBe = at.manifest.epoch >= (this.#looking.notBefore ?? 0) && !signing.hasExpired(at.manifest)
    return mayBe ? { at, holders } : { at: undefined, holders: [] }
  }

  /** Throws ServersDisagreeError if too few servers have the database of `newest`, or if one shows another manifest of its epoch. */
  #assertAlike({ manifest, shown }: Signed): void {
    const isOther = ({ info }: View) => info.database !== toHex(manifest.databaseId)
    if (this.#following.links.length - this.#views.filter(isOther).length < this.#looking.needed) throw this.#differ()
    if (this.#shown.some(other => isFork(shown, other))) throw this.#forked(shown)
  }

  // ---- without ----------------------------------------------------------------------------------------

  /** The newest epoch that as many servers show as are needed; undefined: there is none. */
  #agreed(): EpochInfo | undefined {
    const { needed } = this.#looking
    const isOfAll = needed === this.#following.links.length
    if (isOfAll && this.#hasTwoDatabases) throw this.#differ()
    const agreed = this.#shown.filter(shown => this.#holders(shown).length >= needed).sort(newestFirst)
    // Where all have to agree, one that contradicts another is enough to stop.
    const compared = isOfAll ? this.#shown : agreed
    const forked = compared.find(shown => compared.some(other => isFork(shown, other)))
    if (forked !== undefined) throw this.#forked(forked)
    return agreed[0]
  }

  /** For a moment, a generation before may be all that they have in common. With a key they may show what is not signed yet. */
  #isPast(signing: Signing | undefined, shown: EpochInfo | undefined): boolean {
    if (signing !== undefined || shown === undefined) return false
    return this.#views.every(({ info }) => newestIn(info).epoch > shown.epoch)
  }

  get #hasTwoDatabases(): boolean {
    return new Set(this.#views.map(({ info }) => info.database)).size > 1
  }

  /** Too few show an epoch in common: some are wrong, or further behind than the others answer. */
  #apart(): ServersDisagreeError | VersionError {
    const all = this.#shown.sort(newestFirst)
    const { needed } = this.#looking
    if (this.#hasTwoDatabases) return this.#differ()
    if (all.some(shown => all.some(other => isFork(shown, other)))) {
      return this.#disagree(`fewer than ${needed} of them agree`)
    }
    const oldest = this.#views.reduce((a, b) => (newestFirst(newestIn(a.info), newestIn(b.info)) < 0 ? b : a))
    const came = `none: it is at epoch ${newestIn(oldest.info).epoch}, and others at ${all[0]?.epoch}`
    const message = `expected an epoch that ${needed} servers show, got ${came}; call again later, or ask its operator`
    return new VersionError(oldest.link.server.name, message, { retryable: true })
  }

  // ---- manifests --------------------------------------------------------------------------------------

  get #shown(): EpochInfo[] {
    return this.#views.flatMap(({ info }) => info.epochs)
  }

  #holders({ manifest }: EpochInfo): Links {
    return this.#views
      .filter(({ info }) => info.epochs.some(shown => shown.manifest === manifest))
      .map(({ link }) => link)
  }

  readonly #hashOf = (bytes: Uint8Array): Uint8Array => {
    const { core } = this.#following
    return inCore(core, () => core.blake3(bytes))
  }

  /** The manifest of an epoch, from whichever of its holders sends it first, unless it is known. They take turns. */
  async #manifestOf(shown: EpochInfo): Promise<Agreed> {
    const isIt = ({ bytes }: Agreed) => toHex(this.#hashOf(bytes)) === shown.manifest
    if (this.#base !== undefined && isIt(this.#base)) return this.#base
    const holders = this.#holders(shown)
    const earlyOf = async ({ server }: Link) => {
      const manifest = await this.#looking.manifests?.get(server.name, shown)
      return manifest !== undefined && isIt(manifest) ? manifest : undefined
    }
    const early = new Map(holders.map(link => [link, earlyOf(link).catch(() => undefined)]))
    const order = inTurns(shown.epoch, holders, this.#looking.only ? this.#following.links : [])
    const ask = async (link: Link, signal: AbortSignal) =>
      (await early.get(link)) ?? (await manifestOf(link, shown, holders.includes(link), this.#hashOf, signal))
    let isPast = false
    const onFailed = (_link: Link, error: ServerError) => {
      isPast ||= error instanceof VersionError && (error.newest?.epoch ?? 0) > shown.epoch
    }
    const asked = askOne(order, { onFailed }, this.#signal, ask).catch(error => {
      this.#isForgotten ||= isPast
      throw error
    })
    // The first that is right: Hermes has no Promise.any.
    const right = [...early.values()].map(
      manifest => new Promise<Agreed>(resolve => manifest.then(found => found && resolve(found))),
    )
    return await Promise.race([...right, asked])
  }

  #forked({ epoch }: EpochInfo): ServersDisagreeError {
    return this.#disagree(`their manifests of epoch ${epoch} differ`)
  }

  #differ(): ServersDisagreeError {
    const all = this.#views.map(({ link, info }) => {
      const { epoch } = newestIn(info)
      const key = info.signatures.find(of => of.epoch === epoch)?.publicKey
      const signed = key === undefined ? 'not signed' : `signed under ${key.slice(0, 8)}…`
      return `${link.server.name} has ${info.database.slice(0, 8)}… (epoch ${epoch}, ${signed})`
    })
    return this.#disagree(`their databases differ: ${listed(all)}`)
  }

  #disagree(reason: string): ServersDisagreeError {
    return disagreement(this.#following.links, reason)
  }
}

/**
 * Throws ServersDisagreeError if the publisher has signed two histories: that of `base`, where a map is, and that of `at`. Both are covered by
 * signatures.
 */
export function assertNoFork({ core, links }: Pick<Following, 'core' | 'links'>, base: Agreed, at: Agreed): void {
  const { epoch, databaseId } = base.manifest
  if (!equalBytes(at.manifest.databaseId, databaseId)) return
  const isOther = at.manifest.epoch === epoch && !equalBytes(at.bytes, base.bytes)
  const names = at.manifest.epoch === epoch + 1 ? at.manifest.previousManifest : undefined
  if (
    !isOther &&
    (names === undefined ||
      equalBytes(
        names,
        inCore(core, () => core.blake3(base.bytes)),
      ))
  )
    return
  throw disagreement(links, `the publisher has signed two manifests of epoch ${epoch}, of which this map has the other`)
}

/** The servers contradict each other, or themselves. */
function disagreement(links: Links, reason: string): ServersDisagreeError {
  const what = `expected ${namesOf(links.map(({ server }) => server))} to publish the same, but ${reason}`
  return new ServersDisagreeError(`${what}; one of them is wrong: check the URLs, and ask their operators`)
}

/** What a server claims, newest first: it can list thousands of signatures. */
function claimsIn({ epochs, signatures }: Info, signing: Signing): Claimed[] {
  const underKey = signatures.filter(of => signing.counts(of))
  const newest = Math.max(...epochs.map(({ epoch }) => epoch))
  const recent = epochs.filter(({ epoch }) => epoch > newest - MOST_CLAIMS)
  const claims = recent.map(shown => {
    const ofEpoch = underKey.filter(signature => compareEpochs(signature, shown) === 0)
    return { ...shown, signatures: ofEpoch.slice(0, MOST_SIGNATURES) }
  })
  return claims
    .filter(({ signatures }) => signatures.length > 0)
    .sort(newestFirst)
    .slice(0, MOST_CLAIMS)
}

/** One claim for each manifest, with the signatures of all. */
function merged(claims: readonly Claimed[]): Iterable<Claimed> {
  const all = new Map<string, Claimed>()
  for (const claim of claims) {
    const signatures = [...(all.get(claim.manifest)?.signatures ?? []), ...claim.signatures]
    all.set(claim.manifest, { ...claim, signatures })
  }
  return all.values()
}

/** The newest epoch; of number 0 if there is none. */
export function newestIn({ epochs }: Info): Pick<EpochInfo, 'generation' | 'epoch'> {
  return epochs.at(-1) ?? { generation: 0, epoch: 0 }
}

function isFork(one: EpochInfo, other: EpochInfo): boolean {
  return one.epoch === other.epoch && one.manifest !== other.manifest
}

function newestFirst(a: Pick<EpochInfo, 'generation' | 'epoch'>, b: Pick<EpochInfo, 'generation' | 'epoch'>): number {
  return compareEpochs(b, a)
}

/** Whether there is something to follow for a map at this manifest: a later epoch, or another database. */
export function isNews(newest: NewestEvent, { databaseId, epoch }: EpochId): boolean {
  return newest.epoch > epoch || !equalBytes(newest.databaseId, databaseId)
}

/**
 * What a server says that it has for a map at this manifest: something to follow, or what is not signed yet under the map's key. Undefined:
 * nothing newer.
 */
export function newsIn(info: Info, base: EpochId, signing: Signing | undefined): 'signed' | 'unsigned' | undefined {
  const databaseId = fromHex(info.database)
  const isNew = (of: Pick<EpochInfo, 'generation' | 'epoch'>) => isNews({ databaseId, ...of }, base)
  if (!info.epochs.some(isNew)) return undefined
  const isSigned = info.signatures.some(of => signing?.counts(of) && isNew(of))
  return signing === undefined || isSigned ? 'signed' : 'unsigned'
}
