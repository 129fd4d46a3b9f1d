// What the core costs by itself, in WebAssembly under Node: digests, the offline phase, lookups, updates. No network, no
// store. Times are this process's processor time, so that a busy machine lengthens them little.

import { randomBytes, randomInt } from 'node:crypto'
import { answerBytes, type EntryProofs, queryBytes, suiteOf } from '@keyhush/protocol'
import type { ClientHandle, Core, DatabaseHandle, LayoutHandle } from '@keyhush/wasm'
import { memory } from '../support/wasm.js'

const WARM_UP_LOOKUPS = 50

export const PROOFS: readonly EntryProofs[] = ['merkle', 'tags']

export const CHANGES = ['edit', 'add', 'both'] as const
export type Change = (typeof CHANGES)[number]

/** One lookup, milliseconds each. */
export interface LookupCosts {
  /** of one server */
  readonly answer: readonly number[]
  /** all that a client computes: query, pending lookup, verification, recon, effect */
  readonly client: readonly number[]
  /** and both servers */
  readonly all: readonly number[]
  /** bodies, both ways, both servers */
  readonly bytes: number
}

/** One batch of changes. */
export interface UpdateCosts {
  /** of one server: changes, digests and the list, milliseconds */
  readonly serverMs: readonly number[]
  readonly client: Record<EntryProofs, { readonly ms: readonly number[] }>
}

/** A database in the core's memory as a server has it, and hints for it. `data`: its records, N·ℓ bytes. */
export class ComputeBench {
  readonly #core: Core
  readonly #data: Buffer
  readonly #recordBytes: number
  readonly #handle: DatabaseHandle
  readonly #hints: Partial<Record<EntryProofs, ClientHandle>> = {}
  /** records that are no longer as in `data` */
  readonly #changed = new Map<number, Buffer>()

  constructor(core: Core, data: Buffer, recordBytes: number, partitions?: number) {
    this.#core = core
    this.#data = data
    this.#recordBytes = recordBytes
    this.#handle = core.newDatabase(core.planLayout(data.length / recordBytes, recordBytes, partitions), 'merkle')
    memory(core, this.#handle.recordsPointer(), data.length).set(data)
  }

  get layout(): LayoutHandle {
    return this.#handle.layout
  }

  /** Every digest of the database, milliseconds. Before anything else. */
  digest(): number {
    return milliseconds(() => {
      for (let q = 0; q < this.layout.partitions; q++) this.#handle.commit(q)
    })
  }

  /** The offline phase, milliseconds: hashing, folding, perhaps tagging. Copying records in is not counted. */
  offline(proofs: EntryProofs): number {
    const core = this.#core
    const { partitions, partitionBytes } = this.layout
    const contentHashes = this.#digests(q => this.#handle.contentHash(q))
    let ms = 0
    const timed = <T>(work: () => T): T => {
      let result: T | undefined
      ms += milliseconds(() => {
        result = work()
      })
      return result as T
    }
    const builder = timed(() =>
      core.newHintBuilder(this.layout, this.#commitments(), contentHashes, randomBytes(32), proofs),
    )
    for (let q = 0; q < partitions; q++) {
      builder.begin(0, q)
      const part = this.#data.subarray(q * partitionBytes, (q + 1) * partitionBytes)
      memory(core, builder.lanePointer(0), partitionBytes).fill(0).set(part)
      timed(() => {
        builder.absorb(0, partitionBytes)
        if (!builder.fold(0)) throw new Error(`partition ${q} does not match its content hash`)
      })
    }
    this.#hints[proofs]?.free()
    this.#hints[proofs] = timed(() => builder.finish())
    return ms
  }

  /** What a client holds, bytes: parities, permutations, tags. */
  stateBytes(proofs: EntryProofs): number {
    const { hintBytes, permutationBytes, tagBytes } = this.#hint(proofs)
    return hintBytes + permutationBytes + tagBytes
  }

  /** Lookups of random records, each checked against the data. */
  lookups(proofs: EntryProofs, count: number): LookupCosts {
    const { layout } = this
    const [answer, client, all]: number[][] = [[], [], []]
    for (let i = 0; i < Math.min(WARM_UP_LOOKUPS, count) + count; i++) {
      const costs = this.#lookup(proofs, randomInt(layout.records))
      if (i < Math.min(WARM_UP_LOOKUPS, count)) continue
      answer!.push(costs.answers / 2)
      client!.push(costs.query + costs.recon)
      all!.push(costs.query + costs.answers + costs.recon)
    }
    const bytes = 2 * (queryBytes(layout, 1) + answerBytes(layout, 1, proofs))
    return { answer: answer!, client: client!, all: all!, bytes }
  }

  /**
   * Batches of `size` changes of distinct records, at the server and at the hints there are; afterwards each of the
   * last batch's records is looked up, or of a large one some.
   */
  updates(change: Change, size: number, batches: number): UpdateCosts {
    const serverMs: number[] = []
    const client: Record<EntryProofs, { ms: number[] }> = { merkle: { ms: [] }, tags: { ms: [] } }
    for (let batch = 0; batch < batches; batch++) {
      const indices = this.#change(change, size, { serverMs, client })
      for (const proofs of this.#kinds()) {
        for (const index of indices.slice(0, 20)) this.#lookup(proofs, index)
      }
    }
    return { serverMs, client }
  }

  free(): void {
    for (const proofs of this.#kinds()) this.#hints[proofs]!.free()
    this.#handle.free()
  }

  #change(
    change: Change,
    size: number,
    into: {
      readonly serverMs: number[]
      readonly client: Record<EntryProofs, { ms: number[] }>
    },
  ): number[] {
    const { records } = this.layout
    const isAdd = (i: number) => change === 'add' || (change === 'both' && i % 2 === 0)
    const edits = distinct(size, records)
    let end = records
    const indices = Array.from({ length: size }, (_, i) => (isAdd(i) ? end++ : edits[i]!))
    const kinds = Uint8Array.from(indices, (_, i) => (isAdd(i) ? 1 : 2))
    const values = randomBytes(size * this.#recordBytes)

    let list = new Uint8Array()
    const spent = milliseconds(() => {
      const epoch = this.#handle.applyKeyless(kinds, Uint32Array.from(indices), values)
      list = epoch.list().slice()
      epoch.free()
    })
    into.serverMs.push(spent)
    const commitments = this.#commitments()
    indices.forEach((index, i) => {
      this.#changed.set(index, values.subarray(i * this.#recordBytes, (i + 1) * this.#recordBytes))
    })
    for (const proofs of this.#kinds()) {
      const ms = milliseconds(() => {
        this.#core.blake3(list)
        this.#hint(proofs).update(list, this.layout, commitments, randomBytes(32))
      })
      into.client[proofs].ms.push(ms)
    }
    return indices
  }

  #lookup(proofs: EntryProofs, index: number): { query: number; answers: number; recon: number } {
    const client = this.#hint(proofs)
    let vectors: readonly Uint8Array[] = []
    const query = milliseconds(() => {
      client.query(Uint32Array.of(index), randomBytes(32))
      client.pendingBytes()
      vectors = [client.retrieveVectors(), client.refreshVectors()]
    })
    let answers: readonly Uint8Array[] = []
    const answering = milliseconds(() => {
      answers = vectors.map(vector => this.#handle.answer(vector, suiteOf(proofs)))
    })
    let record: Uint8Array = new Uint8Array()
    const recon = milliseconds(() => {
      if (!client.verify(0, answers[0]!) || !client.verify(1, answers[1]!))
        throw new Error('an honest answer was refused')
      record = client.recon()
      client.takeEffect()
    })
    if (!this.#expected(index).equals(record)) throw new Error(`the record at ${index} is wrong`)
    return { query, answers: answering, recon }
  }

  #expected(index: number): Buffer {
    const at = index * this.#recordBytes
    return this.#changed.get(index) ?? this.#data.subarray(at, at + this.#recordBytes)
  }

  #hint(proofs: EntryProofs): ClientHandle {
    const hint = this.#hints[proofs]
    if (hint === undefined) throw new Error(`there is no hint with ${proofs}; call offline() first`)
    return hint
  }

  #kinds(): EntryProofs[] {
    return PROOFS.filter(proofs => this.#hints[proofs] !== undefined)
  }

  #commitments(): Uint8Array {
    return this.#digests(q => this.#handle.commitment(q))
  }

  #digests(of: (q: number) => Uint8Array): Uint8Array {
    return Buffer.concat(Array.from({ length: this.layout.partitions }, (_, q) => of(q)))
  }
}

/** `count` different numbers below `bound`. */
export function distinct(count: number, bound: number): number[] {
  if (count > bound / 2) throw new RangeError(`expected at most ${Math.floor(bound / 2)} changes, got ${count}`)
  const numbers = new Set<number>()
  while (numbers.size < count) numbers.add(randomInt(bound))
  return [...numbers]
}

/** Processor time of some work. */
export function milliseconds(work: () => void): number {
  const start = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1000
}
