// Rules for what the servers see, checked against what is stored and what they saw before:
//
//   (a) every query was safely stored before as a pending lookup, and fits this server's role in it;
//   (b) of one lookup, a server sees one vector per query, which grows only by partitions that were added meanwhile (a
//       copy of the state that was put back draws those anew);
//   (c) two lookups of one hint never show the same column: their vectors agree only by chance. With one server, no two
//       queries use the same hint;
//   (d) every random draw goes into one hint, lookup or update of the tab that drew it;
//   (e) the claim of a lookup follows its query to the refresh server, the same at every epoch; the retrieve server gets
//       none.
//
// Exception after a restored backup: a lookup whose claim was lost. A copy that does not wait for the fence may make that
// one lookup again.

import { decodeFenceRequest, type FenceClaim } from '@keyhush/protocol'
import { decodeManifest } from '../../interop/reference/manifest.js'
import { encodeQuery } from '../../interop/reference/message.js'
import { type Geometry, geometryOf } from '../../interop/reference/single.js'
import { claimFor, nameOfClaim, splitClaim } from '../fence.js'
import { decodePending, decodeSinglePending } from '../forms.js'
import { after, type Head, hexOf, type Write } from '../ledger.js'
import { SERVERS, type ServerName } from '../network.js'

type Vectors = readonly (readonly number[])[]

/** A lookup, through all the epochs it has been extended to. */
interface Lookup {
  /** Q when it was made */
  readonly partitions: number
  /** its claim */
  readonly claim: string
  /** the lookup of this version from before the state was put back; if the fence knows that one, it must refuse this one */
  readonly instead?: Lookup | undefined
  /** its state was put back since, so that it may be extended again under new permutations */
  putBack: boolean
  /** the longest vectors that each server was sent */
  readonly shown: Map<ServerName, Vectors>
}

/** What one server may be sent. */
interface Request {
  readonly hint: Hint
  readonly lookup: Lookup
  readonly vectors: Vectors
  /** the pending lookup it is in, in hex */
  readonly pending: string
}

interface Hint {
  /** undefined: any server may be asked, and hears the claim */
  readonly retrieveServer: string | undefined
  /** by the version they lead from */
  readonly lookups: Map<number, Lookup>
  /** every vector that a server has been sent, and its lookup */
  readonly seen: Map<ServerName, { readonly lookup: Lookup; readonly vector: readonly number[] }[]>
}

// Of 16 offsets below 7, all or all but one agree in one pair of 3·10^11 (97 / 7^16), and a schedule has some ten thousand pairs.
/** Partitions below which two vectors may agree by chance. */
const TELLING = 16

/** A query in hex, without the suite: that is for life, and the reference knows only the first. */
const nameOf = (body: Uint8Array) => hexOf(body.subarray(8))

export class Audit {
  /** the first broken rule */
  fault: string | undefined
  readonly #hints = new Map<string, Hint>()
  /** by server and body, in hex */
  readonly #requests = new Map<string, Request>()
  /** bodies that each server was sent */
  readonly #sent = new Map<ServerName, Set<string>>(SERVERS.map(server => [server, new Set()]))
  /** pending lookups that no power loss undoes */
  readonly #safe = new Set<string>()
  /** claims that a fence has heard of */
  readonly #heard = new Set<string>()
  readonly #count: (what: string) => void

  constructor(count: (what: string) => void) {
    this.#count = count
  }

  /** A write was accepted. Returns the head it leads to. */
  wrote(write: Write, before: Head | undefined, torn: boolean): Head | undefined {
    let head: Head | undefined
    try {
      head = after(before, write, torn)
    } catch (error) {
      this.#blame((error as Error).message)
      return before
    }
    if (write.method === 'begin') {
      const { scheme, parties } = write.parameters[0]
      const retrieveServer = scheme === 'single' ? undefined : parties[0]
      this.#hints.set(head!.hint, { retrieveServer, lookups: new Map(), seen: new Map() })
    }
    if (write.method === 'putPending' && before?.pending === undefined) this.#intended(head!)
    if (write.method === 'advance' && before?.pending !== undefined) {
      this.#count('pending lookups extended')
      this.#pending(head!, this.#hints.get(head!.hint)!.lookups.get(before.version)!)
    }
    return head
  }

  /** These heads are safe from a power loss. */
  flushed(heads: readonly (Head | undefined)[]): void {
    for (const head of heads) if (head?.pending) this.#safe.add(hexOf(head.pending))
  }

  /** An older copy of the state is restored. */
  putBack(): void {
    for (const { lookups } of this.#hints.values()) for (const lookup of lookups.values()) lookup.putBack = true
  }

  /** A query leaves a client; `durable`: its state is on a disk. */
  sent(server: ServerName, body: Uint8Array, durable: boolean): void {
    try {
      const { query, claim } = splitClaim(body)
      this.#asked(server, nameOf(query), claim, durable)
    } catch (error) {
      this.#blame(`${server} is sent what it cannot read: ${(error as Error).message} (a)`)
    }
  }

  /** A server has replied rightly to a request. */
  answered(path: string, body: Uint8Array): void {
    const claim = path === '/v1/fence' ? decodeFenceRequest(body) : splitClaim(body).claim
    if (claim) this.#heard.add(nameOfClaim(claim))
  }

  #asked(server: ServerName, name: string, claim: FenceClaim | undefined, durable: boolean): void {
    const request = this.#requests.get(`${server} ${name}`)
    if (request === undefined) {
      this.#blame(`${server} is sent what was not stored (a)`)
      return
    }
    const { hint, lookup, vectors, pending } = request
    const expected = server === hint.retrieveServer ? undefined : lookup.claim
    if ((claim && nameOfClaim(claim)) !== expected) this.#blame(`${server} is sent another claim than its own (e)`)
    for (let { instead } = lookup; instead !== undefined; { instead } = instead) {
      if (instead.shown.size > 0 && !this.#isForgotten(instead)) {
        this.#blame(`${server} is sent a second lookup at one version: the first was shown (b)`)
      }
    }
    const sent = this.#sent.get(server)!
    if (sent.has(name)) {
      this.#count('queries sent again')
      return
    }
    sent.add(name)
    if (durable && !this.#safe.has(pending)) this.#blame(`${server} is sent what a power loss may undo (a)`)
    const earlier = lookup.shown.get(server)
    if (earlier !== undefined) {
      this.#count('queries sent again, at another epoch')
      const [before, now] = [earlier, vectors].map(each => (lookup.putBack ? cut(each, lookup.partitions) : each))
      if (!extend(before!, now!) && !extend(now!, before!)) {
        this.#blame(`${server} is sent two different vectors of one query (b)`)
      }
    }
    if (earlier === undefined || extend(earlier, vectors)) lookup.shown.set(server, vectors)
    this.#assertNew(hint, lookup, server, vectors)
  }

  #intended(head: Head): void {
    const instead = this.#hints.get(head.hint)!.lookups.get(head.version)
    if (instead?.putBack === false && instead.shown.size > 0) {
      this.#blame(`a second lookup at version ${head.version}: the first was shown (b)`)
    }
    const manifest = decodeManifest(Buffer.from(head.manifest, 'hex'))
    const single = this.#hints.get(head.hint)!.retrieveServer === undefined
    const { name } = (single ? decodeSinglePending : decodePending)(head.pending!, manifest)
    const claim = claimFor(head.hint, head.version, manifest, name)
    const partitions = single ? Number.POSITIVE_INFINITY : manifest.partitions
    this.#pending(head, { partitions, claim, instead, putBack: false, shown: new Map() })
  }

  /** From now on a lookup is sent in this form. */
  #pending({ hint: id, version, pending, manifest: bytes }: Head, lookup: Lookup): void {
    const hint = this.#hints.get(id)!
    hint.lookups.set(version, lookup)
    const manifest = decodeManifest(Buffer.from(bytes, 'hex'))
    const expect = (server: ServerName, query: string, vectors: Vectors) =>
      this.#requests.set(`${server} ${query}`, { hint, lookup, vectors, pending: hexOf(pending!) })
    if (hint.retrieveServer === undefined) {
      const { queries } = decodeSinglePending(pending!, manifest)
      const head = encodeQuery(manifest, Array<[]>(queries.length).fill([]))
      const vectors = queries.map(query => subsetsIn(query, geometryOf(manifest)))
      for (const server of SERVERS) expect(server, nameOf(head) + queries.map(hexOf).join(''), vectors)
      return
    }
    const { retrieve, refresh } = decodePending(pending!, manifest)
    for (const server of SERVERS) {
      const vectors = server === hint.retrieveServer ? retrieve : refresh
      expect(server, nameOf(encodeQuery(manifest, vectors)), vectors)
    }
  }

  #assertNew(hint: Hint, lookup: Lookup, server: ServerName, vectors: Vectors): void {
    const seen = hint.seen.get(server) ?? []
    hint.seen.set(server, seen)
    const alike = hint.retrieveServer === undefined ? ofOneHint : ofOneColumn
    for (const vector of vectors) {
      for (const other of seen) {
        if (other.lookup === lookup || this.#isForgotten(other.lookup)) continue
        if (alike(vector, other.vector)) this.#blame(`${server} sees a column twice (c)`)
      }
    }
    for (const vector of vectors) seen.push({ lookup, vector })
    if (vectors.some((vector, i) => vectors.some((other, k) => k < i && alike(vector, other)))) {
      this.#blame(`${server} sees a column twice in one lookup (c)`)
    }
  }

  #isForgotten({ putBack, claim }: Lookup): boolean {
    return putBack && !this.#heard.has(claim)
  }

  #blame(fault: string): void {
    this.fault ??= fault
  }
}

/** What a client draws, and its uses. */
export class Draws {
  readonly #unused = new Set<string>()

  drew(bytes: Uint8Array): void {
    if (bytes.length === 32) this.#unused.add(hexOf(bytes))
  }

  /** Throws if these are not random bytes that were drawn and not used before. */
  use(bytes: Uint8Array): void {
    if (!this.#unused.delete(hexOf(bytes))) throw new Error('random bytes that were not drawn, or used before (d)')
  }
}

const cut = (vectors: Vectors, partitions: number): Vectors => vectors.map(vector => vector.slice(0, partitions))

function extend(earlier: Vectors, later: Vectors): boolean {
  return (
    earlier.length === later.length &&
    earlier.every((vector, i) => vector.every((offset, q) => later[i]![q] === offset))
  )
}

/** What one server's query says of each stripe: its offset, and in the lowest bit which subset it is in. */
function subsetsIn(query: Uint8Array, { stripes }: Geometry): number[] {
  const offsets = new DataView(query.buffer, query.byteOffset + Math.ceil(stripes / 8))
  return Array.from(
    { length: stripes },
    (_, k) => 2 * offsets.getUint16(2 * k, true) + ((query[k >> 3]! >> (k & 7)) & 1),
  )
}

// Of 48, 2·(1 + 24²) of the C(48, 24) halves are near enough: one pair in 2·10^10, and a schedule has some ten thousand.
/** Stripes below which two queries may be alike by chance. */
const TELLING_STRIPES = 48

/** Whether two queries to one server are of one hint: they agree but in the stripes asked for, whichever subset is which. */
function ofOneHint(a: readonly number[], b: readonly number[]): boolean {
  const differences = (flip: number) => a.filter((value, k) => value !== (b[k]! ^ flip)).length
  return a.length >= TELLING_STRIPES && a.length === b.length && Math.min(differences(0), differences(1)) < 3
}

/** Whether two vectors agree everywhere, one partition excepted. */
function ofOneColumn(a: readonly number[], b: readonly number[]): boolean {
  const common = Math.min(a.length, b.length)
  let different = 0
  for (let q = 0; q < common && different < 2; q++) if (a[q] !== b[q]) different++
  return common >= TELLING && different < 2
}
