// Follows a database as an auditor (docs/operations/audit.md): every epoch that all servers show and the publisher's key vouches for is made
// anew from the one before, in a store of the auditor's own.
//
// 1. Each server is asked for its newest epochs, and for all manifests since the newest that was checked.
// 2. An epoch for which the key vouches twice is a contradiction. So is a manifest that says something else than its list makes.
// 3. An epoch is stored once it has been checked, and never before. Then its entry in a log is (leaves.ts), which cosigner.ts signs.

import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest, encodeManifest, equalBytes, fromHex, toHex, WireError } from '@keyhush/protocol'
import { checkFollows } from '@keyhush/protocol/chain'
import { type Core, loadCore } from '@keyhush/wasm'
import { type ContradictionError, DatasetError, PublishError, type PublishExit } from '../base/errors.js'
import type { KnownManifest } from '../base/known-manifest.js'
import type { Epoch } from '../database/epochs.js'
import { isHinted } from '../database/one-server.js'
import { MisfitError } from '../database/taking.js'
import { UpdatableDatabase } from '../database/updatable.js'
import { loadDataset } from '../dataset/load.js'
import { type ExportOptions, exportDataset } from '../publisher/export.js'
import { verified } from '../publisher/list.js'
import { PublishedServer, signedByAnother } from '../publisher/server.js'
import type { Storage } from '../storage/storage.js'
import { type Claim, Claims } from './claims.js'
import { checkFound, contradiction, type Evidence } from './evidence.js'
import { keepLeaf } from './leaves.js'

export interface AuditOptions {
  /** base URLs of all servers */
  readonly servers: readonly string[]
  readonly publisherKey: Uint8Array
  /** the auditor's own, which this closes */
  readonly storage: Storage
  /** where the first download and evidence go */
  readonly folder: string
  readonly onProgress?: ExportOptions['onProgress']
  /** called once an epoch is checked and stored */
  readonly onEpoch?: ((checked: Checked) => void) | undefined
  /** seconds since 1970; default: the system's */
  readonly now?: (() => number) | undefined
}

/** An epoch that was checked. */
export interface Checked {
  readonly epoch: number
  readonly generation: number
  /** hash in hex */
  readonly manifest: string
  /** how it came: downloaded whole; by an update list; as a new layout of the same records; or it was checked before */
  readonly how: 'export' | 'list' | 'generation' | 'store'
  /** records that the list changes */
  readonly entries: number
  /** of the list */
  readonly bytes: number
  readonly records: number
  /** seconds since 1970; 0: never */
  readonly expires: number
  /** it took, without the download of a list */
  readonly milliseconds: number
}

/** Epochs, and signatures, that a server may list. A folder has signatures of 64 epochs, by each key. */
const MOST_LISTED = 256
/** Manifests of one server that are in memory at a time. */
const MOST_CHAIN_BYTES = 64 * 1024 * 1024
/** Disputed epochs whose other manifests are asked for, or that are told. */
const MOST_DISPUTED = 4
/** What a server shows has to come in this time, and one more request. */
const LOOK_MILLISECONDS = 120_000

/** Epochs that a server does not keep any more are checked by nobody. */
const AWAY =
  'you were away for longer than it keeps epochs: begin with a new --store, and say that nobody checked the epochs between'

/** Folders below the auditor's. */
const [EVIDENCE, DOWNLOAD, DATASET] = ['evidence', 'download', 'dataset']

export class Audit {
  readonly #options: AuditOptions
  readonly #core: Core
  readonly #servers: readonly PublishedServer[]
  /** the publisher's, in hex */
  readonly #key: string
  readonly #now: () => number
  #updatable: UpdatableDatabase | undefined
  /** what the store is to be begun with */
  #exported: KnownManifest | undefined
  /** the newest epoch that each server showed last */
  readonly #shown = new Map<PublishedServer, number>()
  #faults = 0
  #agreed = 0

  private constructor(options: AuditOptions, core: Core) {
    this.#options = options
    this.#core = core
    this.#servers = options.servers.map(url => new PublishedServer(url))
    this.#key = toHex(options.publisherKey)
    this.#now = options.now ?? (() => Date.now() / 1000)
  }

  /**
   * Opens the store, if it has been begun. `look` begins it.
   * @throws {ContradictionError} if it has found one before
   * @throws {DatasetError} if the store is damaged
   * @example
   * const audit = await Audit.open({ servers, publisherKey, storage: await openStorage('audit'), folder: 'audit' })
   * await audit.look()
   */
  static async open(options: AuditOptions): Promise<Audit> {
    await checkFound(join(options.folder, EVIDENCE))
    const audit = new Audit(options, await loadCore())
    if (await UpdatableDatabase.existsIn(options.storage)) await audit.#open('store', performance.now())
    return audit
  }

  /** The newest epoch that was checked. It is on disk; undefined: none yet. */
  get checked(): Epoch | undefined {
    return this.#updatable?.newest
  }

  /** The newest epoch that any server showed last. */
  get shown(): number {
    return Math.max(0, ...this.#shown.values())
  }

  /** Servers that were away or wrong at the last look. */
  get faults(): number {
    return this.#faults
  }

  /** When all servers last showed the newest checked epoch, unexpired, in seconds since 1970; 0: not since the start. */
  get agreed(): number {
    return this.#agreed
  }

  /**
   * Checks all epochs that there are.
   * @throws {ContradictionError} once the evidence is on disk; then this is of no use
   * @throws {PublishError} 3: a server is away, or an epoch not signed yet; 4: a server is not as it should be, or the newest epoch has
   * expired. All that could be checked was
   */
  async look(): Promise<void> {
    const faults: PublishError[] = []
    await this.#look(faults).catch((error: unknown) => {
      if (!(error instanceof PublishError)) throw error
      faults.push(error)
    })
    this.#faults = faults.length
    if (faults.length === 0) {
      this.#agreed = this.#now()
      return
    }
    const exit = faults.every(fault => fault.exit === 3) ? 3 : 4
    throw new PublishError(faults.map(({ message }) => message).join('\n'), exit)
  }

  async #look(faults: PublishError[]): Promise<void> {
    const head = await this.#head()
    const claims = await this.#ask(head, faults)
    await this.#settle(claims, faults)
    if (this.checked === undefined) {
      const { servers } = claims.add(head.manifest.epoch, this.#hash(head.bytes))
      if (servers.size < this.#servers.length) throw notYet(head.manifest.epoch)
      await this.#create()
    }
    await this.#keepSignature(claims)
    for (let next = this.#next(claims); next !== undefined; next = this.#next(claims)) {
      await this.#take(next, claims)
      await this.#keepSignature(claims)
    }
    const { epoch, expires } = this.checked!.manifest
    const isSigned = claims.of(epoch).some(({ signature }) => signature !== undefined)
    if (this.shown > epoch || !isSigned) faults.push(this.#unsigned(Math.max(this.shown, epoch), claims))
    if (expires === 0 || expires > this.#now()) return
    const at = new Date(expires * 1000).toISOString()
    faults.push(new PublishError(`epoch ${epoch}: expected one that has not expired, got ${at}; ask the publisher`, 4))
  }

  async close(): Promise<void> {
    if (this.#updatable === undefined) await this.#options.storage.close()
    else await this.#updatable.close()
  }

  async #open(how: Checked['how'], since: number): Promise<void> {
    const { storage, onProgress } = this.#options
    const options = { oneServer: false, lingerHours: 0, now: this.#now, onProgress }
    this.#updatable = await UpdatableDatabase.open(storage, options)
    await this.#tell(how, 0, since)
  }

  /** The newest epoch that was checked; without one, that of a server, which is believed once all show it. */
  async #head(): Promise<KnownManifest> {
    if (this.checked !== undefined) return { manifest: this.checked.manifest, bytes: this.checked.manifestBytes }
    if (this.#exported !== undefined) return this.#exported
    const { publisherKey, onProgress } = this.#options
    await rm(this.#download, { recursive: true, force: true })
    await mkdir(this.#download)
    const { url } = this.#servers[0]!
    const out = join(this.#download, DATASET)
    const { manifest } = await exportDataset({ server: url, out, publisherKey, onProgress })
    this.#exported = { manifest, bytes: encodeManifest(manifest) }
    return this.#exported
  }

  /** Begins the store. Of the list that led to its epoch nothing can be known. */
  async #create(): Promise<void> {
    const since = performance.now()
    const { storage, onProgress } = this.#options
    const dataset = await loadDataset(join(this.#download, DATASET), onProgress).catch((error: Error) => {
      throw error instanceof DatasetError ? new PublishError(error.message, 4) : error
    })
    try {
      const { epoch } = dataset.manifest
      if (!(await isHinted(dataset.base, dataset)))
        throw new PublishError(
          `epoch ${epoch}: expected the public hint of these records, got another; ask the publisher`,
          4,
        )
      await UpdatableDatabase.create(storage, dataset)
    } finally {
      dataset.close()
    }
    await this.#open('export', since)
    await rm(this.#download, { recursive: true, force: true })
  }

  get #download(): string {
    return join(this.#options.folder, DOWNLOAD)
  }

  /** Asks all servers. What is wrong with one is added to `faults`. */
  async #ask(head: KnownManifest, faults: PublishError[]): Promise<Claims> {
    const claims = new Claims()
    const asked = this.#servers.map(server => this.#askOne(server, head, claims))
    for (const outcome of await Promise.allSettled(asked)) {
      if (outcome.status === 'fulfilled') continue
      if (!(outcome.reason instanceof PublishError)) throw outcome.reason
      faults.push(outcome.reason)
    }
    await this.#addOwn(head, claims)
    await this.#fetchDisputed(head, claims)
    claims.vouch(this.#options.publisherKey)
    return claims
  }

  /** Notes what a server shows, and its signatures. */
  async #askOne(server: PublishedServer, head: KnownManifest, claims: Claims): Promise<void> {
    const until = performance.now() + LOOK_MILLISECONDS
    const info = await server.info()
    if (info.database !== toHex(head.manifest.databaseId))
      throw fault(
        server,
        'expected this database, got another; is the URL right? Another database needs another --store',
      )
    if (info.epochs.length > MOST_LISTED || info.signatures.length > MOST_LISTED)
      throw fault(server, `expected at most ${MOST_LISTED} epochs and signatures, got more; ask its operator`)
    for (const { epoch, generation, manifest } of info.epochs) {
      if (epoch >= head.manifest.epoch || this.#updatable?.status(epoch) !== undefined)
        claims.add(epoch, manifest, server).generation = generation
    }
    claims.signatures.push(...info.signatures)
    const newest = Math.max(0, ...info.epochs.map(({ epoch }) => epoch))
    this.#shown.set(server, newest)
    let [last, bytes] = [head, 0]
    while (last.manifest.epoch < newest) {
      const since = last.manifest.epoch
      const page = await server.since(since, AWAY)
      if (page.length === 0) throw fault(server, `expected the manifests after epoch ${since}, got none; look again`, 3)
      for (const next of page) {
        follow(server, last, next)
        claims.add(next.manifest.epoch, this.#hash(next.bytes), server).known = next
        claims.add(next.manifest.epoch - 1, toHex(next.manifest.previousManifest), server)
        last = next
        bytes += next.bytes.length
      }
      if (bytes > MOST_CHAIN_BYTES || performance.now() > until)
        throw fault(
          server,
          `expected the manifests as far as epoch ${newest} in time, got those to ${last.manifest.epoch}`,
          3,
        )
    }
    if (newest >= head.manifest.epoch) return
    if (this.checked === undefined) throw notYet(head.manifest.epoch)
    throw fault(
      server,
      `expected epoch ${head.manifest.epoch}, which it has shown, got ${newest}: it has gone back; ask its operator`,
    )
  }

  /** Adds what was checked before, as far back as servers show epochs. */
  async #addOwn(head: KnownManifest, claims: Claims): Promise<void> {
    const { epoch: newest } = head.manifest
    for (let epoch = Math.min(newest, claims.epochs[0] ?? newest); epoch <= newest; epoch++) {
      const status = this.#updatable?.status(epoch)
      if (status === undefined && epoch < newest) continue
      const bytes = epoch === newest ? head.bytes : await this.#updatable!.manifestOf(status!.generation, epoch)
      if (bytes === undefined) continue
      const claim = claims.add(epoch, this.#hash(bytes))
      claim.isVouched = true
      claim.known ??= { manifest: decodeManifest(bytes), bytes }
      const signatures = (await this.#updatable?.signaturesOf(epoch)) ?? []
      claim.signature ??= signatures.find(({ publicKey }) => publicKey === this.#key)
    }
  }

  /** Asks for manifests that a server names, where another is known. */
  async #fetchDisputed({ manifest: { databaseId } }: KnownManifest, claims: Claims): Promise<void> {
    for (const epoch of claims.disputed.slice(0, MOST_DISPUTED)) {
      for (const claim of claims.of(epoch)) {
        const [server] = claim.servers
        if (claim.known !== undefined || claim.generation === undefined || server === undefined) continue
        const known = await server.manifest(claim.generation, epoch).catch(() => undefined)
        if (known === undefined || this.#hash(known.bytes) !== claim.hash) continue
        // The key may have signed that epoch of another database, too.
        if (known.manifest.epoch === epoch && equalBytes(known.manifest.databaseId, databaseId)) claim.known = known
      }
    }
  }

  /** Throws ContradictionError if the key vouches for two manifests of an epoch. What else is disputed is added to `faults`. */
  async #settle(claims: Claims, faults: PublishError[]): Promise<void> {
    const said = (epoch: number) => {
      const shown = claims.of(epoch).map(({ hash, servers }) => {
        const names = [...servers].map(({ name }) => name).join(', ')
        return `${hash} ${names === '' ? '(checked before)' : `at ${names}`}`
      })
      return `epoch ${epoch}: expected one manifest, got ${shown.join(' and ')}`
    }
    for (const epoch of claims.disputed) {
      const vouched = claims.of(epoch).filter(({ isVouched }) => isVouched)
      const proofs = vouched.map(claim => claims.proofOf(epoch, claim))
      if (vouched.length > 1) throw await this.#contradiction(`${said(epoch)}; the key vouches for both`, proofs)
    }
    for (const epoch of claims.disputed.slice(0, MOST_DISPUTED)) {
      const doubted = claims.of(epoch).filter(({ isVouched }) => !isVouched)
      const names = new Set(doubted.flatMap(({ servers }) => [...servers].map(({ name }) => name)))
      const why = `the key vouches for one at most: ask the operator of ${[...names].join(', ')}`
      faults.push(new PublishError(`${said(epoch)}; ${why}`, 4))
    }
  }

  /** The next epoch that all servers show and the key vouches for. */
  #next(claims: Claims): Claim | undefined {
    return claims
      .of(this.checked!.manifest.epoch + 1)
      .find(
        ({ isVouched, known, servers }) => isVouched && known !== undefined && servers.size === this.#servers.length,
      )
  }

  async #take(claim: Claim, claims: Claims): Promise<void> {
    const next = claim.known!
    const { epoch, updateListHash: hash, updateListBytes: bytes, pointproofs } = next.manifest
    if (pointproofs !== undefined)
      throw new PublishError(
        `epoch ${epoch}: expected a database without Pointproofs, got one with them; nobody can audit it`,
        4,
      )
    const list = bytes === 0 ? undefined : await verified(this.#core, this.#servers, { hash, bytes })
    const since = performance.now()
    try {
      const entries = await this.#updatable!.take(next, list)
      await this.#tell(list === undefined ? 'generation' : 'list', entries, since)
    } catch (error) {
      if (!(error instanceof MisfitError)) throw error
      const before = claims.of(epoch - 1).find(each => each.hash === toHex(next.manifest.previousManifest))!
      const proofs = [claims.proofOf(epoch - 1, before), claims.proofOf(epoch, claim)]
      throw await this.#contradiction(`epoch ${epoch}: ${error.message}`, proofs, list)
    }
  }

  /** Keeps the signature of the newest epoch, for evidence. */
  async #keepSignature(claims: Claims): Promise<void> {
    const { manifest, manifestHash } = this.checked!
    const signature = claims.of(manifest.epoch).find(({ hash }) => hash === manifestHash)?.signature
    if (signature !== undefined) await this.#updatable!.addSignature(signature)
  }

  /** What is wrong with an epoch for which the key does not vouch, or that not all servers show. */
  #unsigned(epoch: number, { signatures }: Claims): PublishError {
    const other = signedByAnother(epoch, signatures, this.#key)
    return other === undefined ? notYet(epoch) : new PublishError(`epoch ${epoch}: ${other}`, 4)
  }

  #contradiction(found: string, proofs: readonly Evidence[], list?: Uint8Array): Promise<ContradictionError> {
    const manifests = proofs.flatMap(proof => proof.manifests)
    const signatures = [...new Set(proofs.flatMap(proof => proof.signatures))]
    return contradiction(this.#core, join(this.#options.folder, EVIDENCE), found, { manifests, signatures, list })
  }

  async #tell(how: Checked['how'], entries: number, since: number): Promise<void> {
    const { manifest, manifestHash } = this.checked!
    const { databaseId, epoch, generation, records, expires, updateListBytes } = manifest
    await keepLeaf(this.#options.storage, { databaseId, epoch, manifestHash: fromHex(manifestHash) })
    const bytes = how === 'list' ? updateListBytes : 0
    const milliseconds = Math.round(10 * (performance.now() - since)) / 10
    this.#options.onEpoch?.({
      epoch,
      generation,
      manifest: manifestHash,
      how,
      entries,
      bytes,
      records,
      expires,
      milliseconds,
    })
  }

  #hash(bytes: Uint8Array): string {
    return toHex(this.#core.blake3(bytes))
  }
}

/** Throws PublishError if a manifest cannot follow another. Hashes are not compared. */
function follow(server: PublishedServer, before: KnownManifest, next: KnownManifest): void {
  try {
    checkFollows(before.manifest, next.manifest)
  } catch (error) {
    if (!(error instanceof WireError)) throw error
    throw fault(
      server,
      `expected an epoch that can follow ${before.manifest.epoch}, got another (${error.message}); ask its operator`,
    )
  }
}

function fault({ name }: PublishedServer, text: string, exit: PublishExit = 4): PublishError {
  return new PublishError(`${name}: ${text}`, exit)
}

function notYet(epoch: number): PublishError {
  return new PublishError(
    `epoch ${epoch}: expected it at all servers, signed, got it at some or unsigned; look again`,
    3,
  )
}
