// Instant lookups as a server answers them (docs/protocol.md): they wait in a bounded queue, one pass over a database
// serves up to eight queries of whatever clients and epochs, and passes run in worker threads, so that everything else goes
// on meanwhile. One for the whole process: its threads share the core's memory.
//
// A pass reads the records as they are at the newest epoch, and the core takes the last update out again for those who ask
// at the epoch before. So nothing may change a database under a pass: updates wait for it (database/readers.ts), and the
// epoch of a query is looked up when its pass begins.

import { availableParallelism } from 'node:os'
import type { Manifest } from '@pirouette/protocol'
import type { Core, InstantPassHandle } from '@pirouette/wasm'
import { epochUnknown, Refusal } from '../base/refusal.js'
import type { Epochs, SharedDatabase } from '../database/epochs.js'
import { Threads } from './threads.js'

export interface InstantOptions {
  /** worker threads; default: one less than processors, 1 to 4 */
  readonly workers?: number | undefined
  /** most queries that may wait; default 256 */
  readonly waiting?: number | undefined
}

/** What one request asks. */
export interface InstantRequest {
  readonly epochs: Epochs
  readonly generation: number
  readonly epoch: number
  /** queries, one after the other, that have been checked */
  readonly queries: Uint8Array
  readonly count: number
  /** of whom it is: nobody gets more than half of the queue */
  readonly network: string
}

export interface Waiting {
  /** the answers, one after the other; rejects with a Refusal */
  readonly answers: Promise<Uint8Array>
  /** nobody wants the answers any more */
  cancel(): void
}

/** Queries a pass serves. */
const PASS_QUERIES = 8
const DEFAULT_WAITING = 256
const MOST_WORKERS = 4

/** A request under way. */
interface Entry {
  readonly request: InstantRequest
  /** queries that passes have taken on */
  taken: number
  /** those whose answers are there */
  answered: number
  readonly answers: Uint8Array[]
  resolve(answers: Uint8Array): void
  reject(error: Error): void
}

/** A query of an entry, in a pass. */
interface Taken {
  readonly entry: Entry
  readonly number: number
  readonly query: Uint8Array
  readonly previous: boolean
}

export class InstantLookups {
  /** told when the core's memory is in doubt; nothing is to be answered after that */
  onFailure: (error: Error) => void = () => {}

  readonly #workers: number
  readonly #most: number
  /** in the order they came; of those whose queries are not all taken */
  #queue: Entry[] = []
  #threads: Promise<Threads> | undefined
  readonly #passes = new Set<Promise<void>>()
  /** answers that are to come */
  readonly #requests = new Set<Promise<Uint8Array>>()
  #pumping = false
  #closed = false

  constructor({ workers, waiting = DEFAULT_WAITING }: InstantOptions = {}) {
    this.#workers = workers ?? Math.min(MOST_WORKERS, Math.max(1, availableParallelism() - 1))
    this.#most = waiting
  }

  /** Queries that wait. */
  get waiting(): number {
    return this.#waitingOf(() => true)
  }

  /** Passes under way. */
  get passes(): number {
    return this.#passes.size
  }

  /** Lets a request wait for its passes. Throws an `instant_full` Refusal if there is no room for it. */
  submit(request: InstantRequest): Waiting {
    if (this.#closed) throw shuttingDown()
    const { count, network } = request
    // Whoever finds the queue empty gets in, however much it is.
    const ofNetwork = this.#waitingOf(other => other.network === network)
    if (exceeds(this.waiting, count, this.#most) || exceeds(ofNetwork, count, this.#most / 2)) {
      throw new Refusal('instant_full', 'as many instant lookups as may wait are waiting; try again')
    }
    let entry: Entry | undefined
    const answers = new Promise<Uint8Array>((resolve, reject) => {
      entry = { request, taken: 0, answered: 0, answers: [], resolve, reject }
      this.#queue.push(entry)
    })
    this.#requests.add(answers)
    const settled = () => void this.#requests.delete(answers)
    answers.then(settled, settled)
    void this.#pump()
    return { answers, cancel: () => this.#drop(entry!, new Refusal('not_ready', 'the client has gone')) }
  }

  /** From now on nothing is taken on. What waits is answered; then threads and their memory go. */
  async close(): Promise<void> {
    this.#closed = true
    while (this.#requests.size > 0 || this.#passes.size > 0) {
      await Promise.allSettled([...this.#requests, ...this.#passes])
    }
    const threads = await this.#threads?.catch(() => undefined) // it has been told of then
    await threads?.close()
  }

  #waitingOf(chosen: (request: InstantRequest) => boolean): number {
    return this.#queue.reduce((sum, { request, taken }) => sum + (chosen(request) ? request.count - taken : 0), 0)
  }

  /** Begins as many passes as there are threads for. */
  async #pump(): Promise<void> {
    if (this.#pumping) return
    this.#pumping = true
    try {
      for (;;) {
        const first = this.#queue[0]
        if (first === undefined) return
        const core = first.request.epochs.newest.shared().core
        this.#threads ??= Threads.of(core, this.#workers)
        const threads = await this.#threads
        if (!threads.free || !this.#beginPass(core, threads)) return
      }
    } catch (error) {
      this.#fail(error as Error)
    } finally {
      this.#pumping = false
    }
  }

  /** Whether there was one to begin. */
  #beginPass(core: Core, threads: Threads): boolean {
    const chosen = this.#choose()
    if (chosen === undefined) return false
    const { database, taken } = chosen
    const end = database.readers.begin()
    const pass = this.#run(core, threads, database, taken)
      .catch(error => {
        for (const { entry } of taken) this.#drop(entry, error)
        if (isFatal(error)) this.#fail(error)
      })
      .finally(() => {
        this.#passes.delete(pass)
        end()
        void this.#pump()
      })
    this.#passes.add(pass)
    return true
  }

  /** Takes up to eight queries that one pass can serve, in the order they came. */
  #choose(): { database: SharedDatabase; taken: Taken[] } | undefined {
    let database: SharedDatabase | undefined
    const taken: Taken[] = []
    for (const entry of [...this.#queue]) {
      const { epochs, generation, epoch, queries, count } = entry.request
      const found = epochs.find(generation, epoch)
      if (found === undefined) {
        this.#drop(entry, epochUnknown(epochs.newest.manifest))
        continue
      }
      const shared = found.shared()
      if (!shared.readers.open) {
        shared.readers.onceOpen(() => void this.#pump())
        continue
      }
      database ??= shared
      if (shared.handle !== database.handle) continue
      const bytes = queries.length / count
      while (entry.taken < count && taken.length < PASS_QUERIES) {
        const number = entry.taken++
        const query = queries.subarray(number * bytes, (number + 1) * bytes)
        taken.push({ entry, number, query, previous: shared.previous })
      }
      if (entry.taken === count) this.#leave(entry)
      if (taken.length === PASS_QUERIES) break
    }
    return database === undefined ? undefined : { database, taken }
  }

  async #run(core: Core, threads: Threads, { handle }: SharedDatabase, taken: readonly Taken[]): Promise<void> {
    const queries = Buffer.concat(taken.map(({ query }) => query))
    const previous = Uint8Array.from(taken, ({ previous }) => Number(previous))
    const pass: InstantPassHandle = core.newInstantPass(handle, queries, previous)
    let running = false
    try {
      const descriptor = pass.descriptor(handle)
      running = true
      await threads.run(descriptor)
      running = false
      pass.stepped()
      const answers = pass.finish(handle)
      const bytes = answers.length / taken.length
      taken.forEach(({ entry, number }, i) => {
        entry.answers[number] = answers.subarray(i * bytes, (i + 1) * bytes)
        entry.answered += 1
        if (entry.answered === entry.request.count) entry.resolve(Buffer.concat(entry.answers))
      })
    } finally {
      queries.fill(0)
      // A thread that has failed may still be at it: its memory is not given to anybody else.
      if (!running) pass.free()
    }
  }

  #drop(entry: Entry, error: Error): void {
    this.#leave(entry)
    entry.reject(error)
  }

  #leave(entry: Entry): void {
    this.#queue = this.#queue.filter(other => other !== entry)
  }

  #fail(error: Error): void {
    this.#closed = true
    for (const entry of [...this.#queue])
      this.#drop(entry, new Refusal('not_ready', 'this server has failed and is restarting'))
    this.onFailure(error)
  }
}

/** Sizes that a request's layout has, as the core says. */
export interface InstantSizes {
  readonly requestBytes: number
  readonly answerBytes: number
  readonly maxBatch: number
}

/** Checks a request's queries at the epoch they ask at, and says how long all is. Throws the core's errors. */
export function checkQueries(core: Core, manifest: Manifest, queries: Uint8Array): InstantSizes {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = manifest
  const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  try {
    core.checkInstantQueries(layout, queries)
    const { instantRequestBytes: requestBytes, instantAnswerBytes: answerBytes, instantMaxBatch: maxBatch } = layout
    return { requestBytes, answerBytes, maxBatch }
  } finally {
    layout.free()
  }
}

function exceeds(standing: number, added: number, most: number): boolean {
  return standing > 0 && standing + added > most
}

function shuttingDown(): Refusal {
  return new Refusal('not_ready', 'this server is shutting down')
}

/** What the core refuses by a code leaves it whole; a trap, or a thread that has failed, does not. */
function isFatal(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof Refusal) && typeof (error as { code?: unknown }).code !== 'string'
}
