// What the servers get to see, held against what is stored and what they have seen before:
//
//   (a) whatever is sent for the first time is the batch that the disk holds safely at that moment, for this server's role;
//   (b) of one batch, a server sees one vector a query, and later only the same, longer by the partitions that were added;
//   (c) two batches of one hint never show the same column: their vectors do not agree but by chance;
//   (d) every random draw goes into one hint, batch or update, and was drawn by whoever uses it.

import { decodeManifest } from '../interop/reference/manifest.js'
import { encodeQuery } from '../interop/reference/message.js'
import type { Disk } from '../state/harness/disk.js'
import { decodePending } from '../state/harness/forms.js'
import { after, type Head, type Write } from '../state/harness/ledger.js'
import { SERVERS, type ServerName } from './servers.js'

type Vectors = readonly (readonly number[])[]

/** A batch of queries, through all the epochs it has been extended to. */
interface Batch {
  /** the vectors each server was sent last */
  readonly shown: Map<ServerName, Vectors>
}

interface Hint {
  readonly retrieveServer: string
  /** by the version they lead from */
  readonly batches: Map<number, Batch>
  /** every vector of every batch that a server has been sent, and whose it is */
  readonly seen: Map<ServerName, { readonly batch: Batch; readonly vector: readonly number[] }[]>
}

/**
 * Partitions below which two vectors may agree by chance. Of 16 offsets below 7, all or all but one agree in one pair of
 * 3·10^11 (97 / 7^16), and a schedule has some ten thousand pairs.
 */
const TELLING = 16

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

export class Audit {
  /** the first thing that was not as it must be */
  fault: string | undefined
  readonly #hints = new Map<string, Hint>()
  /** bodies that each server was sent */
  readonly #sent = new Map<ServerName, Set<string>>(SERVERS.map(server => [server, new Set()]))
  /** pending batches that no power loss undoes */
  readonly #safe = new Set<string>()
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
      const { retrieveServer } = write.parameters[0]
      this.#hints.set(head!.hint, { retrieveServer, batches: new Map(), seen: new Map() })
    }
    if (write.method === 'putPending' && before?.pending === undefined) this.#intended(head!)
    if (write.method === 'advance' && before?.pending !== undefined) {
      const { batches } = this.#hints.get(head!.hint)!
      batches.set(head!.version, batches.get(before.version)!)
      this.#count('pending batches extended')
    }
    return head
  }

  /** These heads are safe from a power loss. */
  flushed(heads: readonly (Head | undefined)[]): void {
    for (const head of heads) if (head?.pending) this.#safe.add(hex(head.pending))
  }

  /** A query leaves a client, whose state is on `disk`. */
  sent(disk: Disk, server: ServerName, body: Uint8Array): void {
    const sent = this.#sent.get(server)!
    const request = hex(body)
    if (sent.has(request)) return this.#count('queries sent again')
    sent.add(request)
    const { head } = disk
    if (head?.pending === undefined) return this.#blame(`${server} is sent a query, and none is pending`)
    const hint = this.#hints.get(head.hint)!
    const manifest = decodeManifest(Buffer.from(head.manifest, 'hex'))
    const form = decodePending(head.pending, manifest)
    const vectors = server === hint.retrieveServer ? form.retrieve : form.refresh
    if (hex(encodeQuery(manifest, vectors)) !== request) return this.#blame(`${server} is sent what is not pending (a)`)
    if (disk.durable && !this.#safe.has(hex(head.pending))) {
      return this.#blame(`${server} is sent what a power loss may undo (a)`)
    }
    const batch = hint.batches.get(head.version)!
    const earlier = batch.shown.get(server)
    batch.shown.set(server, vectors)
    if (earlier !== undefined) {
      this.#count('queries sent again, extended')
      if (!extend(earlier, vectors)) this.#blame(`${server} is sent two different vectors of one query (b)`)
    }
    this.#assertNew(hint, batch, server, vectors)
  }

  #intended({ hint: id, version }: Head): void {
    const { batches } = this.#hints.get(id)!
    const earlier = batches.get(version)
    if (earlier && earlier.shown.size > 0) this.#blame(`a second batch at version ${version}: the first was shown (b)`)
    batches.set(version, { shown: new Map() })
  }

  #assertNew(hint: Hint, batch: Batch, server: ServerName, vectors: Vectors): void {
    const seen = hint.seen.get(server) ?? []
    hint.seen.set(server, seen)
    for (const vector of vectors) {
      for (const other of seen) {
        if (other.batch !== batch && alike(vector, other.vector)) this.#blame(`${server} sees a column twice (c)`)
      }
    }
    for (const vector of vectors) seen.push({ batch, vector })
    if (vectors.some((vector, i) => vectors.some((other, k) => k < i && alike(vector, other)))) {
      this.#blame(`${server} sees a column twice in one batch (c)`)
    }
  }

  #blame(fault: string): void {
    this.fault ??= fault
  }
}

/** What a client draws, and what it makes of it. */
export class Draws {
  readonly #unused = new Set<string>()

  drew(bytes: Uint8Array): void {
    if (bytes.length === 32) this.#unused.add(hex(bytes))
  }

  /** Throws if these are not random bytes that were drawn and not used before. */
  use(bytes: Uint8Array): void {
    if (!this.#unused.delete(hex(bytes))) throw new Error('random bytes that were not drawn, or used before (d)')
  }
}

function extend(earlier: Vectors, later: Vectors): boolean {
  return (
    earlier.length === later.length &&
    earlier.every((vector, i) => vector.every((offset, q) => later[i]![q] === offset))
  )
}

/** Whether two vectors agree everywhere, one partition excepted. */
function alike(a: readonly number[], b: readonly number[]): boolean {
  const common = Math.min(a.length, b.length)
  let equal = 0
  for (let q = 0; q < common; q++) if (a[q] === b[q]) equal++
  return common >= TELLING && equal >= common - 1
}
