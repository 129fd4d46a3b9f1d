// The rules for a client, checked from outside: from the random bytes it drew, the writes its store accepted, the requests its
// servers saw, and the results of its calls. The independent reference (tests/interop/reference) makes the one right request.
//
//   (a) every request is one whose lookup is safely stored, or a byte-identical repetition to the same server;
//   (b) at each version of a hint, only one lookup is ever shown. It is the one that the reference makes from the
//       permutations at that version, fresh random bytes, and the question of a call;
//   (c) every result is what the plain database says, at the epoch of the hint that was asked;
//   (d) a hint is given up, or another begun in its place, only for a reason; what is stored never goes back;
//   (e) a condemned hint stays until a reset() replaces it; a hint is condemned only after a lie, or after its disk was put
//       back;
//   (f) every call that succeeds has made exactly one lookup of its own, of the hint that answered it, and shown it to
//       both servers;
//   (g) a hint is registered with its refresh server before it is first stored. A lookup's claim follows its query. If
//       `rollback` is strict, or the fence was not heard lately, a lookup is confirmed before it is shown. No effect is
//       stored before it is granted. The retrieve server never sees the hint's id. After the disk is put back to an
//       older copy, (b) still holds.

import type { RollbackPreference } from '@keyhush/client'
import type { HintRecord, StateStore } from '@keyhush/client/environment'
import { decodeFenceRequest, decodeManifest, type FenceClaim, type FenceRequest } from '@keyhush/protocol'
import { partitionBytes, split } from '../../interop/reference/layout.js'
import { encodeQuery } from '../../interop/reference/message.js'
import { permutations } from '../../interop/reference/random.js'
import {
  type Identity,
  identityFrom,
  makeLookup,
  type Lookup as ReferenceLookup,
} from '../../interop/reference/scheme.js'
import type { Disk } from '../disk.js'
import { claimFor, nameOfClaim, splitClaim } from '../fence.js'
import { decodePending, type PendingForm } from '../forms.js'
import { storedHint } from '../inspect.js'
import { after, type Head, hexOf, type Write } from '../ledger.js'
import { SERVERS, type ServerName as Server } from '../network.js'
import type { Question } from '../questions.js'
import type { Outcome } from '../tab.js'
import { core, DATABASES, type Database, plainOf } from './databases.js'
import { indicesOf } from './questions.js'
import type { Request, Servers, Word } from './servers.js'
import type { Call, Tab } from './tab.js'

type Permutations = readonly (readonly number[])[]

/** One lookup, as the reference makes it. */
interface Lookup {
  readonly hint: string
  readonly version: number
  /** the one request that each server may get for it, in hex */
  readonly requests: Readonly<Record<Server, string>>
  /** its claim */
  readonly claim: string
  /** another lookup for the same version, shown before the disk was put back */
  readonly against: Lookup | undefined
  /** the permutations once it is applied */
  readonly after: Permutations
  /** stored, and flushed */
  safe: boolean
  /** its effect is stored */
  applied: boolean
  readonly shownTo: Set<Server>
}

interface ModelHint {
  readonly id: string
  readonly database: Database
  readonly retrieveServer: Server
  readonly refreshServer: Server
  readonly identity: Identity
  /** the disk was put back to an older copy of it */
  rewound: boolean
  /** at each version */
  readonly permutations: Permutations[]
  /** that leads from each version to the next */
  readonly lookups: Lookup[]
}

/** The fence's verdicts on one hint that a tab has heard. */
interface Heard {
  /** claims, as `claimOf` names them */
  readonly granted: Set<string>
  /** claims without a verdict so far, and their versions */
  readonly unheard: Map<string, number>
  /** claims whose lookup was rightly shown, so that the same bytes may follow whatever the verdict */
  readonly left: Set<string>
  /** when it last heard, if that was a grant */
  at: number | undefined
}

/** How long a grant of the fence is good. */
const AWAKE_MS = 60_000

/** What the model knows of one tab. */
class Book {
  /** 32 bytes each: drawn, and not used yet */
  readonly entropy: Uint8Array[] = []
  /** calls that may still make a lookup */
  readonly asking: Call[] = []
  /** resets that have not begun a hint yet */
  resets = 0
  /** the hint that it last sent a query of */
  hint: string | undefined
  /** hints of which it has found a server to lie */
  readonly betrayed = new Set<string>()
  /** by hint */
  readonly words = new Map<string, Heard>()
  /** the disk has failed when it was about to store a condemnation */
  excused = false
}

export class Model {
  /** the first broken rule */
  violation: string | undefined
  readonly #hints = new Map<string, ModelHint>()
  readonly #servers: Servers
  readonly #rollback: RollbackPreference
  readonly #now: () => number
  readonly #count: (what: string) => void
  readonly #books = new Map<Tab, Book>()
  readonly #lookups = new Map<Call, Lookup>()
  /** all requests that a server has seen, in hex, and the tab that sent each first */
  readonly #seen = new Map<Server, Map<string, Tab>>(SERVERS.map(server => [server, new Map()]))
  #diskHasFailed = false

  /** half-made hints that were emptied on the disk, at the same epoch, by the tab in whose memory they go on, once */
  readonly #moved = new Map<string, Tab | undefined>()
  /** hints, and where they are registered; `granted` once a tab has heard so */
  readonly #registrations = new Map<string, { readonly server: Server; granted: boolean }>()

  /** `count`: counts what happened. */
  constructor(
    { servers, rollback, now }: { servers: Servers; rollback: RollbackPreference; now: () => number },
    count: (what: string) => void,
  ) {
    this.#servers = servers
    this.#rollback = rollback
    this.#now = now
    this.#count = count
  }

  drew(tab: Tab, bytes: Uint8Array): void {
    if (bytes.length === 32) this.#of(tab).entropy.push(bytes)
  }

  mayReset(tab: Tab): void {
    this.#of(tab).resets++
  }

  asked(call: Call): void {
    this.#of(call.tab).asking.push(call)
  }

  /** A write has been accepted. Returns the head it leads to. */
  wrote(tab: Tab, disk: Disk, write: Write, before: Head | undefined, torn: boolean): Head | undefined {
    try {
      if (write.method === 'putPending') this.#intended(tab, write.parameters, before?.pending)
      const head = after(before, write, torn)
      if (write.method === 'begin') this.#begun(tab, disk, write.parameters[0], before, torn)
      if (write.method === 'discard' && !torn) this.#assertReasonToDiscard(disk, before)
      if (write.method === 'condemn' && head?.condemned && !before?.condemned) {
        this.#assertReasonToCondemn(head.hint, write.parameters[1])
      }
      if (write.method === 'commit') this.#committed(tab, before!)
      if (write.method === 'updatePartial' && head?.manifest === before?.manifest) {
        if (disk.durable) this.#moved.set(head!.hint, tab)
      } else if (write.method === 'updatePartial' || write.method === 'advance') {
        throw new Error('a hint goes to another epoch, which this model does not follow')
      }
      if (!disk.durable) this.flushed([head])
      // What was torn and is removed cannot be asked twice, whether or not its last write was flushed.
      if (torn) this.flushed([before])
      return head
    } catch (error) {
      this.#fault(`${tab.name}: ${(error as Error).message}`)
      return before
    }
  }

  /** These heads are safe from a power loss. */
  flushed(heads: readonly (Head | undefined)[]): void {
    for (const head of heads) {
      if (head?.pending === undefined) continue
      const lookup = this.#hints.get(head.hint)?.lookups[head.version]
      if (lookup) lookup.safe = true
    }
  }

  /** A request leaves a tab. */
  sent(tab: Tab, { server, path, body }: Request): void {
    if (body === undefined) return
    try {
      if (path === '/v1/fence') {
        this.#claimed(tab, server, decodeFenceRequest(body))
        return
      }
      const { query, claim } = splitClaim(body)
      this.#asked(tab, server, hexOf(query), claim)
      if (claim) this.#claimed(tab, server, { kind: 'confirm', ...claim })
    } catch (error) {
      this.#fault(`${tab.name} sends ${server} what it cannot read: ${(error as Error).message}`)
    }
  }

  #asked(tab: Tab, server: Server, request: string, claim: FenceClaim | undefined): void {
    const seen = this.#seen.get(server)!
    const lookup = this.#lookupOf(server, request)
    if (lookup) {
      this.#of(tab).hint = lookup.hint
      this.#assertFenced(tab, server, lookup)
      const isToClaim = server === this.#hints.get(lookup.hint)!.refreshServer
      if (isToClaim && (claim === undefined || nameOfClaim(claim) !== lookup.claim)) {
        this.#fault(`${tab.name} sends ${server} a query without its claim (S8)`)
      }
    }
    if (lookup?.safe) {
      lookup.shownTo.add(server)
    } else if (!seen.has(request)) {
      this.#fault(
        `${tab.name} sends ${server} a query that ${lookup ? 'may yet be lost' : 'is not the one stored'} (S1)`,
      )
    }
    const first = seen.get(request)
    if (first) this.#count(first === tab ? 'sent again' : 'sent again by another tab')
    else seen.set(request, tab)
  }

  /** The fence gets a claim, alone or behind a query. */
  #claimed(tab: Tab, server: Server, claim: FenceRequest): void {
    const id = hexOf(claim.hintId)
    const hint = this.#hints.get(id)
    if (claim.kind === 'register') {
      if (hint) this.#fault(`${tab.name} registers a hint that is stored (S8)`)
      const other = this.#registrations.get(id)
      if (other && other.server !== server) this.#fault(`${tab.name} shows a hint's id to its retrieve server (S8)`)
      this.#registrations.set(id, { server, granted: false })
      return
    }
    if (server !== hint?.refreshServer) this.#fault(`${tab.name} shows a hint's id to its retrieve server (S8)`)
    this.#wordOn(tab, id).unheard.set(nameOfClaim(claim), claim.version)
  }

  /** The fence's verdict has reached the tab. */
  heard(tab: Tab, { claim, verdict }: Word): void {
    const id = hexOf(claim.hintId)
    if (claim.kind === 'register') {
      this.#registrations.get(id)!.granted ||= verdict === 'granted'
      return
    }
    const word = this.#wordOn(tab, id)
    if (verdict === 'granted') {
      word.granted.add(nameOfClaim(claim))
      word.at = this.#now()
      for (const [earlier, of] of word.unheard) if (of <= claim.version) word.unheard.delete(earlier)
    } else {
      this.#count('refused by the fence')
      // A tab that was refused because another is ahead has been awake, too.
      word.granted.clear()
      word.unheard.delete(nameOfClaim(claim))
    }
  }

  /** All tabs are dead, and the disk is as it was before. */
  diskIsPutBack(): void {
    for (const hint of this.#hints.values()) {
      hint.rewound = true
      for (const lookup of hint.lookups) lookup.applied = false
    }
  }

  /** `alone`: there was no other tab all the while. */
  ended(call: Call, outcome: Outcome, alone: boolean): void {
    // Giving up is local: the call may still make its lookup (P5).
    if (!call.giveUp.signal.aborted) this.#mayAskNoMore(call)
    try {
      if ('error' in outcome) this.#assertPlausible(call, outcome.error as Error)
      else if (call.question) this.#assertRight(call, call.question, outcome.value)
      else if (call.what === 'open') this.#opened(call, alone)
    } catch (error) {
      this.#fault(`${call.tab.name}: ${call.what}${(error as Error).message}`)
    }
  }

  /** A call of the disk fails, or the stored state is torn. `condemning`: the call was to condemn. */
  diskFails(tab?: Tab, condemning = false): void {
    this.#diskHasFailed = true
    if (tab && condemning) this.#of(tab).excused = true
  }

  /** The stored hint equals the model's, to the last bit. */
  async inspect(disk: Disk): Promise<void> {
    const { head } = disk
    if (head === undefined || disk.torn || head.condemned || head.stage !== 'whole') return
    const { database, permutations } = this.#hints.get(head.hint)!
    const expected = permutations[head.version]!
    const stored = await storedHint(core, disk, head.hint, database.manifestBytes)
    if (hexOf(stored.hintId) !== head.hint || stored.version !== head.version) this.#fault('another hint is stored')
    if (show(stored.permutations) !== show(expected)) this.#fault('the stored permutations are not the right ones')
    if (hexOf(stored.parities) !== hexOf(paritiesUnder(expected, database)))
      this.#fault('the stored parities are wrong')
  }

  // ---- hints ---------------------------------------------------------------------------------------

  #begun(tab: Tab, { durable }: Disk, record: HintRecord, before: Head | undefined, torn: boolean): void {
    if (before !== undefined && !torn) {
      if (this.#of(tab).resets-- === 0) throw new Error('a hint is begun in place of another without a reset')
    }
    const id = hexOf(record.hintId)
    if (!durable && this.#moved.get(id) === tab) {
      this.#moved.set(id, undefined)
      return
    }
    const entropy = this.#take(tab, bytes => hexOf(identityFrom(bytes).id) === id)
    if (entropy === undefined) throw new Error('a hint does not come from fresh random bytes')
    const [retrieveServer, refreshServer] = record.parties as [Server, Server]
    const names = [...record.parties].sort()
    if (names.join() !== [...SERVERS].sort().join()) throw new Error(`the roles are ${names.join(' and ')}`)
    const registration = this.#registrations.get(id)
    if (!record.fenced.includes(refreshServer) || !registration?.granted || registration.server !== refreshServer) {
      throw new Error('a hint is stored before its refresh server has granted it (S8)')
    }
    const { epoch } = decodeManifest(record.manifest)
    const database = DATABASES.find(({ manifest }) => manifest.epoch === epoch)!
    const { partitions, partitionRecords } = database.manifest
    this.#hints.set(id, {
      id,
      database,
      retrieveServer,
      refreshServer,
      identity: identityFrom(entropy),
      rewound: false,
      permutations: [permutations(partitions, partitionRecords, entropy)],
      lookups: [],
    })
  }

  #assertReasonToDiscard({ durable }: Disk, before: Head | undefined): void {
    if (before === undefined) return
    // A state in memory does not survive its tab, and one that moved there leaves nothing on the disk.
    if (before.stage === 'partial' && (!durable || this.#moved.has(before.hint))) return
    const epoch = this.#hints.get(before.hint)!.database.manifest.epoch
    if (epoch >= DATABASES[this.#servers.newest]!.manifest.epoch)
      throw new Error('a hint is discarded without a reason')
  }

  #assertReasonToCondemn(id: string, culprit: string | undefined): void {
    if (culprit === undefined && this.#isRefusable(id)) {
      this.#count(this.#hints.get(id)!.rewound ? 'condemned for its past' : 'condemned by a slander')
      return
    }
    if (!this.#servers.liars.has(culprit as Server)) throw new Error(`${culprit} is condemned, and has not lied`)
  }

  // ---- lookups -------------------------------------------------------------------------------------

  #intended(
    tab: Tab,
    [hintId, version, pending]: Parameters<StateStore['putPending']>,
    before: Uint8Array | undefined,
  ): void {
    if (before !== undefined && hexOf(before) === hexOf(pending)) return
    const hint = this.#hints.get(hexOf(hintId))!
    const form = decodePending(pending, hint.database.manifest)
    if (hexOf(form.hintId) !== hint.id || form.version !== version)
      throw new Error('a lookup of another hint or version')
    const earlier = hint.lookups[version]
    const shown = earlier && earlier.shownTo.size > 0 ? earlier : earlier?.against
    if (shown && !hint.rewound) throw new Error(second(version))
    hint.lookups[version] = this.#referenceLookup(hint, version, form, tab, shown)
    this.#credit(tab, form, hint.lookups[version])
  }

  /** Finds the call that a lookup is made for. Calls of a tab are served in their order. */
  #credit(tab: Tab, form: PendingForm, lookup: Lookup): void {
    const asking = this.#of(tab).asking.filter(({ question }) => isQuestion(question!, form))
    const inTurn = asking.find(({ giveUp }) => !giveUp.signal.aborted)
    const earlier = inTurn && this.#lookups.get(inTurn)
    if (inTurn) this.#lookups.set(inTurn, lookup)
    // One more lookup, since another tab has begun a new hint: the fence refuses the old one.
    if (inTurn && earlier?.hint !== lookup.hint) return
    // This lookup, or the one before it, was made for a call that was given up at that moment.
    const givenUp = asking.find(call => call.giveUp.signal.aborted && !this.#lookups.has(call))
    if (givenUp === undefined) throw new Error('a lookup for which there is no call, or the second of one')
    this.#lookups.set(givenUp, earlier ?? lookup)
  }

  #referenceLookup(hint: ModelHint, version: number, form: PendingForm, tab: Tab, against: Lookup | undefined): Lookup {
    const { database, retrieveServer } = hint
    const vectors = show([form.retrieve, form.refresh])
    let made: ReferenceLookup | undefined
    const entropy = this.#take(tab, bytes => {
      made = makeLookup(database.manifest, hint.identity, version, hint.permutations[version]!, form.indices, bytes)
      return show([made.retrieve, made.refresh]) === vectors
    })
    if (entropy === undefined) throw new Error(`a lookup that the permutations at version ${version} do not lead to`)
    const request = (server: Server) =>
      hexOf(encodeQuery(database.manifest, server === retrieveServer ? made!.retrieve : made!.refresh))
    return {
      hint: hint.id,
      version,
      requests: { [SERVERS[0]]: request(SERVERS[0]), [SERVERS[1]]: request(SERVERS[1]) },
      claim: claimFor(hint.id, version, database.manifest, made!.name),
      against,
      after: made!.permutationsAfter,
      safe: false,
      applied: false,
      shownTo: new Set(),
    }
  }

  #committed(tab: Tab, { hint: id, version }: Head): void {
    const hint = this.#hints.get(id)!
    const lookup = hint.lookups[version]!
    if (!this.#wordOn(tab, id).granted.has(lookup.claim)) {
      throw new Error('an effect is stored, and the fence has not granted its lookup (S8)')
    }
    hint.permutations[version + 1] = lookup.after
    lookup.applied = true
  }

  /** The lookup for which a server may get this request. Of hints and versions, the newest first. */
  #lookupOf(server: Server, request: string): Lookup | undefined {
    const all = [...this.#hints.values()].flatMap(({ lookups }) => lookups).reverse()
    return all.find(({ requests }) => requests[server] === request)
  }

  // ---- the fence -----------------------------------------------------------------------------------

  /** A lookup is about to be shown. */
  #assertFenced(tab: Tab, server: Server, { hint: id, version, claim, against, applied }: Lookup): void {
    const { granted, unheard, left, at } = this.#wordOn(tab, id)
    // Missing verdicts on earlier lookups do not matter if these are finished: no effect is stored without one.
    const { lookups } = this.#hints.get(id)!
    const settled = (other: string) => lookups.find(lookup => lookup.claim === other)?.applied !== false
    const lately = at !== undefined && this.#now() - at < AWAKE_MS
    const awake = lately && [...unheard.keys()].every(other => other === claim || settled(other))
    if (granted.has(claim) || (awake && this.#rollback === 'confirm')) left.add(claim)
    if (!left.has(claim)) {
      // If its effect is stored, another tab has finished it, and that one's claim was granted.
      if (applied) this.#count('finished for another tab that the fence refuses')
      else this.#fault(`${tab.name} sends ${server} a query that the fence has not confirmed (S8)`)
    }
    if (against === undefined) return
    // Without waiting for the fence, one lookup whose claim was lost may be shown again.
    const known = this.#servers.fences[this.#hints.get(id)!.refreshServer].granted
    if (this.#rollback === 'strict' || known.has(against.claim)) this.#fault(`${tab.name}: ${second(version)}`)
    this.#count('a lookup that the fence had not heard of was forgotten')
  }

  /** Whether the fence may refuse a hint, rightly or as a lie. */
  #isRefusable(id: string): boolean {
    return this.#hints.get(id)!.rewound || this.#servers.slandered.has(id)
  }

  #wordOn(tab: Tab, id: string): Heard {
    const { words } = this.#of(tab)
    const word = words.get(id) ?? { granted: new Set(), unheard: new Map(), left: new Set(), at: undefined }
    words.set(id, word)
    return word
  }

  // ---- small ones ----------------------------------------------------------------------------------

  #assertRight(call: Call, question: Question, value: unknown): void {
    const lookup = this.#lookups.get(call)
    if (lookup === undefined) throw new Error(' succeeds without a query of its own (P4)')
    if (lookup.shownTo.size < 2) throw new Error(' succeeds, and not both servers were asked')
    if (this.#of(call.tab).betrayed.has(lookup.hint)) throw new Error(' succeeds after a lie was found out')
    const [found, expected] = [value, question.answer(plainOf(this.#hints.get(lookup.hint)!.database))].map(show)
    if (found !== expected) throw new Error(` should be ${expected}, and the map says ${found}`)
  }

  #assertPlausible({ tab, question, giveUp }: Call, error: Error & { code?: string; server?: string }): void {
    if (error.name === 'AbortError' && giveUp.signal.aborted) return
    const { code = '', server } = error
    const misfortune = ['network', 'rate_limited', 'protocol'].includes(code)
    const closed = code === 'closed' && tab.calls.some(({ what }) => what === 'close')
    const lie = ['tampered', 'condemned'].includes(code) && this.#servers.liars.has(server as Server)
    const refused =
      code === 'condemned' && server === undefined && [...this.#hints.keys()].some(id => this.#isRefusable(id))
    const storage = code === 'storage' && this.#diskHasFailed
    if (!misfortune && !closed && !lie && !refused && !storage) throw new Error(` fails with ${error.stack ?? error}`)
    if (code === 'tampered' && question) this.#assertCondemned(tab)
  }

  #assertCondemned(tab: Tab): void {
    const { head, torn } = tab.disk!
    const book = this.#of(tab)
    if (torn || head === undefined || head.hint !== book.hint) return
    book.betrayed.add(head.hint)
    if (!head.condemned && !book.excused) throw new Error(': a lie is found out, and the hint is not condemned')
  }

  /** S3: whoever opens finishes what is pending, before anything else; if a server or the disk fails, the next lookup does. */
  #opened({ tab, troublesBefore }: Call, alone: boolean): void {
    this.#of(tab).betrayed.clear()
    const { head, torn } = tab.disk!
    if (!alone || head?.pending === undefined || torn) return
    if (tab.troubles > troublesBefore) {
      this.#count('opened with a lookup that could not be finished')
      return
    }
    const lookup = this.#hints.get(head.hint)!.lookups[head.version]!
    if (lookup.shownTo.size < 2) throw new Error(' succeeds, and what was pending is not finished')
  }

  #mayAskNoMore(call: Call): void {
    const { asking } = this.#of(call.tab)
    const at = asking.indexOf(call)
    if (at >= 0) asking.splice(at, 1)
  }

  /** Random bytes of a tab that `fit`. They do so once. */
  #take(tab: Tab, fit: (bytes: Uint8Array) => boolean): Uint8Array | undefined {
    const { entropy } = this.#of(tab)
    const at = entropy.findIndex(fit)
    return at < 0 ? undefined : entropy.splice(at, 1)[0]
  }

  #of(tab: Tab): Book {
    const book = this.#books.get(tab) ?? new Book()
    this.#books.set(tab, book)
    return book
  }

  #fault(violation: string): void {
    this.violation ??= violation
  }
}

const second = (version: number) => `a second lookup for version ${version}: the first was shown`

function isQuestion(question: Question, form: PendingForm): boolean {
  const { indices } = form
  return indices.length === question.queries && indicesOf(question).every((index, i) => indices[i] === index)
}

function show(value: unknown): string {
  return JSON.stringify(value, (_key, part) => (part instanceof Uint8Array ? hexOf(part) : part))
}

/** h_j = ⊕_q DB_q[σ_q(j)] */
function paritiesUnder(permutations: readonly (readonly number[])[], { manifest, blobs }: Database): Uint8Array {
  const partitions = split(manifest.contentHashes, 32).map(hash => split(blobs.get(hexOf(hash))!, manifest.recordBytes))
  const parities = new Uint8Array(partitionBytes(manifest))
  permutations.forEach((permutation, q) => {
    permutation.forEach((offset, j) => {
      partitions[q]![offset]!.forEach((byte, b) => {
        parities[j * manifest.recordBytes + b]! ^= byte
      })
    })
  })
  return parities
}
