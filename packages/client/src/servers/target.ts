// Which epoch a map should be at (docs/threat-model.md, Freshness). Servers say in `/v1/info` which epochs they answer, each by its
// manifest's hash, and which are signed.
//
//   with a publisher's key   the newest signed epoch that any server shows. Its signature covers all before it: each manifest names the
//                            one before by its hash
//   without                  the newest epoch that as many servers show as have to agree
//
// A map that asks servers asks at an epoch that all it needs show: if some lack the newest, at the one before it, which these still answer.

import { type EpochInfo, equalBytes, fromHex, type Info, type Manifest, type NewestEvent, type SignatureInfo, toHex } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { scoped } from '../base/abort.js'
import { SLOW_MS } from '../base/constants.js'
import { ServersDisagreeError, VersionError } from '../base/errors.js'
import type { MapEvent } from '../base/events.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import { ask, askOne, sleep } from './ask.js'
import { type Heard, infoOf } from './info.js'
import { type Agreed, compareEpochs, manifestOf } from './manifests.js'
import { listed, namesOf } from './parties.js'
import type { Publisher } from './signatures.js'
import type { StatsKeeper } from './stats.js'
import type { Link, Links } from './transport.js'

/** What is needed to follow. */
export interface Following {
  readonly core: Core
  readonly links: Links
  /** undefined: the servers' agreement suffices */
  readonly publisher: Publisher | undefined
  readonly stats: StatsKeeper
  readonly pause: Environment['pause']
}

export interface Looking {
  /** how many servers have to show the epoch */
  readonly needed: number
  /** replies that were asked for already */
  readonly heard?: Heard | undefined
  /** where the map has been: it does not go back behind this epoch */
  readonly notBefore?: number | undefined
  /** a server's newest manifest, asked for already */
  readonly manifest?: Promise<Agreed> | undefined
  /** whether servers that were late before are waited for as the others */
  readonly patient?: boolean | undefined
}

export interface Target {
  /** undefined: those that are needed show no epoch in common that the map may be at */
  readonly at: Agreed | undefined
  /** the servers that show it */
  readonly holders: Links
  /** undefined: nobody holds the map back */
  readonly behind: Behind | undefined
  /** what each server says, in their order; undefined: of one that has not replied in time */
  readonly replies: readonly (Info | undefined)[]
}

/** A newer signed epoch, and the servers that do not show it. */
export interface Behind {
  readonly epoch: number
  readonly servers: readonly string[]
}

/** Holds a map back, and says so once. */
export class Lag {
  readonly #announce: (event: MapEvent) => void
  #behind: Behind | undefined

  constructor(announce: (event: MapEvent) => void) {
    this.#announce = announce
  }

  note(behind: Behind | undefined): void {
    const isNew = behind !== undefined && behind.epoch !== this.#behind?.epoch
    this.#behind = behind
    if (isNew) this.#announce({ type: 'behind', ...behind })
  }

  /** Throws VersionError if a newer epoch was shown, and could not be reached. */
  assertNone(): void {
    if (this.#behind !== undefined) throw heldBack(this.#behind)
  }
}

export function heldBack({ epoch, servers }: Behind): VersionError {
  const what = `expected epoch ${epoch}, which the publisher has signed and another server shows, from ${listed(servers)}`
  return new VersionError(servers[0]!, `${what}, got none of it; call again later, or ask their operators`, {
    retryable: true,
  })
}

/** An epoch that a server shows, and its manifest. */
interface Known extends Agreed {
  readonly shown: EpochInfo
}

/** What one server shows. */
interface View {
  readonly link: Link
  readonly info: Info
  /** with a publisher's key: the newest epoch that is signed under it and has not expired, else one that has; undefined: there is none */
  readonly signed: Known | undefined
}

/** Of one server, for one look; an honest one has three. */
const MOST_EPOCHS = 4

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
  readonly #looking: Looking
  readonly #signal: AbortSignal
  #views: readonly View[] = []
  /** manifests by their hash in hex, asked for or known */
  readonly #manifests = new Map<string, Promise<Agreed>>()
  readonly #signatures = new Map<string, Promise<Uint8Array | undefined>>()

  constructor(following: Following, base: Agreed | undefined, looking: Looking, signal: AbortSignal) {
    this.#following = following
    this.#looking = looking
    this.#signal = signal
    if (base !== undefined) this.#manifests.set(this.#hashOf(base.bytes), Promise.resolve(base))
  }

  async target(): Promise<Target> {
    const { links, publisher } = this.#following
    const { needed, patient = false } = this.#looking
    const asking = { enough: needed, all: true, patient }
    const replies = await ask(links, asking, this.#signal, (link, signal) => this.#view(link, signal))
    this.#views = replies.filter(view => view !== undefined)
    const infos = replies.map(view => view?.info)
    if (publisher === undefined) {
      const shown = this.#agreed() ?? (await this.#agreedInHistory())
      return { at: await this.#manifestOf(shown), holders: this.#holders(shown), behind: undefined, replies: infos }
    }
    const newest = this.#newestSigned(publisher)
    const holders = this.#holders(newest.shown)
    if (holders.length >= needed) return { at: newest, holders, behind: undefined, replies: infos }
    const lacking = links.filter(link => !holders.includes(link))
    const behind = { epoch: newest.manifest.epoch, servers: lacking.map(({ server }) => server.name) }
    return { ...(await this.#before(newest, publisher)), behind, replies: infos }
  }

  async #view(link: Link, signal: AbortSignal): Promise<View> {
    const { publisher } = this.#following
    const info = await (this.#looking.heard?.take(link) ?? infoOf(link, signal))
    return { link, info, signed: publisher && (await this.#signedOf(publisher, link, info, signal)) }
  }

  // ---- with a publisher's key -------------------------------------------------------------------------

  async #signedOf(publisher: Publisher, link: Link, info: Info, signal: AbortSignal): Promise<Known | undefined> {
    const isUnderKey = ({ publicKey }: SignatureInfo) => publicKey === publisher.key
    const signatures = info.signatures.filter(isUnderKey)
    const ofEpoch = (shown: EpochInfo) => signatures.filter(signature => compareEpochs(signature, shown) === 0)
    const signed = info.epochs.filter(shown => ofEpoch(shown).length > 0).sort((a, b) => compareEpochs(b, a))
    let expired: Known | undefined
    for (const shown of signed.slice(0, MOST_EPOCHS)) {
      const agreed = await this.#shownBy(link, shown, signal)
      const signature = await this.#verified(publisher, agreed, shown, ofEpoch(shown))
      if (signature === undefined) continue
      const known = { ...agreed, signature, shown }
      if (!publisher.hasExpired(agreed.manifest)) return known
      expired ??= known
    }
    return expired
  }

  /** Servers show the same signatures, as a rule: each is verified once. */
  #verified(publisher: Publisher, agreed: Agreed, shown: EpochInfo, all: readonly SignatureInfo[]) {
    const name = [shown.manifest, ...all.map(({ signature }) => signature)].join()
    const verified = this.#signatures.get(name) ?? publisher.signatureOf(agreed, all)
    this.#signatures.set(name, verified)
    return verified
  }

  #newestSigned(publisher: Publisher): Known {
    const all = this.#views.flatMap(view => view.signed ?? [])
    const fresh = all.filter(({ manifest }) => !publisher.hasExpired(manifest))
    const signed = fresh.length > 0 ? fresh : all
    if (signed.length === 0) throw publisher.unsigned(this.#newestShown)
    const newest = signed.reduce((a, b) => (compareEpochs(b.shown, a.shown) > 0 ? b : a))
    publisher.checkExpiry(newest.manifest)
    if (signed.some(({ shown }) => shown.epoch === newest.shown.epoch && shown.manifest !== newest.shown.manifest)) {
      throw disagree(this.#following.links, `the publisher has signed two manifests of epoch ${newest.shown.epoch}`)
    }
    return newest
  }

  /** The epoch before, which `newest` names by its hash, if those that are needed show it, and the map may be there. */
  async #before({ manifest }: Known, publisher: Publisher): Promise<Pick<Target, 'at' | 'holders'>> {
    const hash = toHex(manifest.previousManifest)
    const shown = this.#views.flatMap(({ info }) => info.epochs).find(shown => shown.manifest === hash)
    const holders = shown === undefined ? [] : this.#holders(shown)
    if (shown === undefined || holders.length < this.#looking.needed) return { at: undefined, holders: [] }
    const at = await this.#manifestOf(shown)
    const isOlder = at.manifest.epoch < (this.#looking.notBefore ?? 0)
    return isOlder || publisher.hasExpired(at.manifest) ? { at: undefined, holders: [] } : { at, holders }
  }

  get #newestShown(): EpochInfo | undefined {
    return this.#views.flatMap(({ info }) => info.epochs).sort((a, b) => compareEpochs(b, a))[0]
  }

  // ---- without ----------------------------------------------------------------------------------------

  /** The newest epoch that as many servers answer as are needed. */
  #agreed(): EpochInfo | undefined {
    const { links } = this.#following
    const { needed } = this.#looking
    const isOfAll = needed === links.length
    if (isOfAll && new Set(this.#views.map(({ info }) => info.database)).size > 1) {
      throw disagree(links, 'they hold different databases')
    }
    const all = this.#views.flatMap(({ info }) => info.epochs)
    const agreed = all.filter(shown => this.#holders(shown).length >= needed).sort((a, b) => compareEpochs(b, a))
    // Where all have to agree, one that contradicts another is enough to stop.
    const compared = isOfAll ? all : agreed
    const isForked = ({ epoch, manifest }: EpochInfo) =>
      compared.some(other => other.epoch === epoch && other.manifest !== manifest)
    const forked = compared.find(isForked)
    if (forked !== undefined) throw disagree(links, `their manifests of epoch ${forked.epoch} differ`)
    return agreed[0]
  }

  /** A server that is further ahead answers the others' epoch no more, but may still have its manifest. */
  async #agreedInHistory(): Promise<EpochInfo> {
    const { links } = this.#following
    const { needed } = this.#looking
    const newest = this.#views.flatMap(({ info }) => info.epochs.at(-1) ?? []).sort((a, b) => compareEpochs(b, a))
    for (const shown of newest) {
      const kept = this.#views.map(async ({ link, info }) => {
        if (isIn(info, shown)) return true
        return await this.#askedOf(link, shown, this.#signal).then(() => true, () => false)
      })
      const votes = (await Promise.all(kept)).filter(Boolean)
      if (votes.length >= needed) return shown
    }
    const what = needed < links.length ? `fewer than ${needed} of them agree` : `no epoch is answered by ${allOf(links)}`
    throw disagree(links, what)
  }

  // ---- manifests --------------------------------------------------------------------------------------

  #hashOf(bytes: Uint8Array): string {
    return toHex(this.#blake3(bytes))
  }

  readonly #blake3 = (bytes: Uint8Array): Uint8Array => {
    const { core } = this.#following
    return inCore(core, () => core.blake3(bytes))
  }

  #holders(shown: EpochInfo): Links {
    return this.#views.filter(({ info }) => isIn(info, shown)).map(({ link }) => link)
  }

  /** From whichever of its holders sends it first. */
  async #manifestOf(shown: EpochInfo): Promise<Agreed> {
    await this.#takeEarly()
    const known = this.#manifests.get(shown.manifest)
    return await (known ?? askOne(this.#holders(shown), {}, this.#signal, (link, signal) => this.#askedOf(link, shown, signal)))
  }

  /** From this server, unless it is known, or another has been asked and sends it soon. */
  async #shownBy(link: Link, shown: EpochInfo, signal: AbortSignal): Promise<Agreed> {
    await this.#takeEarly()
    const asked = this.#manifests.get(shown.manifest)
    const early = asked && (await soon(link, asked, signal))
    if (early !== undefined) return early
    const own = this.#askedOf(link, shown, signal)
    this.#manifests.set(shown.manifest, own)
    return await own
  }

  async #askedOf(link: Link, shown: EpochInfo, signal: AbortSignal): Promise<Agreed> {
    return await manifestOf(link, shown, this.#blake3, signal)
  }

  /** Notes the manifest that was asked for beforehand. */
  async #takeEarly(): Promise<void> {
    const { manifest } = this.#looking
    const early = manifest && (await soon(this.#following.links[0]!, manifest, this.#signal))
    if (early !== undefined) this.#manifests.set(this.#hashOf(early.bytes), Promise.resolve(early))
  }
}

/** Undefined: it has failed, or takes long. */
async function soon<T>({ environment: { clock } }: Link, work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return await scoped([signal], signal =>
    Promise.race([work.catch(() => undefined), sleep(clock, SLOW_MS, signal).then(() => undefined)]),
  )
}

/** Whether there is something to follow for a map at this manifest: a later epoch, or another database. */
export function isNews(newest: NewestEvent, { databaseId, epoch }: Manifest): boolean {
  return newest.epoch > epoch || !equalBytes(newest.databaseId, databaseId)
}

/**
 * What a server says that it has for a map at this manifest: something to follow, or what is not signed yet under the map's key. Undefined:
 * nothing newer.
 */
export function newsIn(info: Info, base: Manifest, publisher: Publisher | undefined): 'signed' | 'unsigned' | undefined {
  const databaseId = fromHex(info.database)
  if (!info.epochs.some(({ epoch, generation }) => isNews({ databaseId, epoch, generation }, base))) return undefined
  const isSigned = info.signatures.some(
    ({ publicKey, epoch, generation }) => publicKey === publisher?.key && isNews({ databaseId, epoch, generation }, base),
  )
  return publisher === undefined || isSigned ? 'signed' : 'unsigned'
}

function isIn({ epochs }: Info, { manifest }: EpochInfo): boolean {
  return epochs.some(shown => shown.manifest === manifest)
}

function allOf({ length }: Links): string {
  return length === 2 ? 'both' : 'all'
}

/** The servers contradict each other, or themselves. */
function disagree(links: Links, reason: string): ServersDisagreeError {
  const names = namesOf(links.map(({ server }) => server))
  return new ServersDisagreeError(
    `expected ${names} to publish the same, but ${reason}; one of them is wrong: ask their operators`,
  )
}
