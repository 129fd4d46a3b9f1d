// Instant passes in worker threads over one shared copy of the database: the answers are those of the thread that has the
// core, whatever runs side by side and however the memory grows meanwhile.

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { type Core, type DatabaseHandle, type LightReplyHandle, loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { finished } from '../support/wasm.js'

const stream = (label: string, bytes: number) => blake3(utf8ToBytes(label), { dkLen: bytes })
const WORKERS = 4
/** Megabytes are told apart by their hashes: comparing them element by element takes seconds. */
const digests = (replies: readonly Uint8Array[]) => replies.map(reply => bytesToHex(blake3(reply)))

/** A worker thread, one pass at a time. */
class PassWorker {
  readonly #worker: Worker
  readonly #stack: { readonly end: number; free(): void }

  private constructor(worker: Worker, stack: { readonly end: number; free(): void }) {
    this.#worker = worker
    this.#stack = stack
  }

  static async start(core: Core): Promise<PassWorker> {
    const stack = core.newWorkerStack()
    const workerData = { module: await core.workerModule(), memory: core.memory, stackEnd: stack.end }
    const worker = new Worker(new URL('pass-worker.mjs', import.meta.url), { workerData })
    await once(worker, 'online')
    return new PassWorker(worker, stack)
  }

  async answer(core: Core, database: DatabaseHandle, queries: Uint8Array): Promise<Uint8Array> {
    const pass = core.newInstantPass(database, queries, flags(database, queries))
    try {
      await this.#run('runInstantPass', pass.descriptor(database))
      pass.stepped()
      return pass.finish(database)
    } finally {
      pass.free()
    }
  }

  async make(database: DatabaseHandle, reply: LightReplyHandle, partitions = 5): Promise<Uint8Array> {
    try {
      do await this.#run('makeLightReply', reply.descriptor(database, partitions))
      while (reply.stepped())
      return reply.finish()
    } finally {
      reply.free()
    }
  }

  async #run(kernel: 'runInstantPass' | 'makeLightReply', descriptor: number): Promise<void> {
    const done = once(this.#worker, 'message')
    this.#worker.postMessage({ kernel, descriptor })
    await done
  }

  async stop(): Promise<void> {
    await this.#worker.terminate()
    this.#stack.free()
  }
}

const flags = (database: DatabaseHandle, queries: Uint8Array) =>
  new Uint8Array(queries.length / database.layout.instantRequestBytes)

function makeHere(database: DatabaseHandle, reply: LightReplyHandle): Uint8Array {
  while (reply.step(database));
  const body = reply.finish()
  reply.free()
  return body
}

function answerHere(core: Core, database: DatabaseHandle, queries: Uint8Array): Uint8Array {
  const pass = core.newInstantPass(database, queries, flags(database, queries))
  while (pass.step(database));
  const answer = pass.finish(database)
  pass.free()
  return answer
}

describe('passes in four worker threads', () => {
  let core: Core
  let database: DatabaseHandle
  let commitments: Uint8Array
  const records = 20_000
  const content = stream('records', records * 48)
  const workers: PassWorker[] = []

  beforeAll(async () => {
    core = await loadCore()
    const layout = core.layout(records, 48, 16, 1251)
    database = core.newDatabase(layout)
    new Uint8Array(core.memory.buffer, database.recordsPointer(), content.length).set(content)
    for (let q = 0; q < 16; q++) database.commit(q)
    commitments = concatBytes(...Array.from({ length: 16 }, (_, q) => database.commitment(q)))
    for (let i = 0; i < WORKERS; i++) workers.push(await PassWorker.start(core))
  })

  afterAll(async () => {
    await Promise.all(workers.map(worker => worker.stop()))
    database.free()
  })

  test('the memory is one, and shared', () => {
    expect(Object.prototype.toString.call(core.memory.buffer)).toBe('[object SharedArrayBuffer]')
  })

  test.each([1, 3, 8])(
    'answer %i queries a pass as the core itself does, all at once, while memory grows',
    async count => {
      const layout = database.layout
      const lives = workers.map(async (worker, number) => {
        for (let round = 0; round < 5; round++) {
          const label = `${number} ${round} ${count}`
          const chosen = new Uint32Array(stream(label, 4 * count).buffer).map(word => word % records)
          const query = core.newInstantQuery(layout, chosen, stream(`entropy ${label}`, 32))
          const answers = await Promise.all([
            worker.answer(core, database, query.request(0)),
            answerHere(core, database, query.request(1)),
          ])
          expect(answers[0]).toEqual(answerHere(core, database, query.request(0)))
          const found = query.recon(commitments, ...answers)
          const asked = Array.from(chosen, index => content.subarray(index * 48, (index + 1) * 48))
          expect(found).toEqual(concatBytes(...asked))
          query.free()
          const grown = core.memory.buffer.byteLength
          core.newDatabase(core.layout(1, 65_536, 16, 2 ** (number + 1))).free()
          expect(core.memory.buffer.byteLength).toBeGreaterThanOrEqual(grown)
        }
      })
      await Promise.all(lives)
    },
  )

  test('an answer changed by one bit is refused', async () => {
    const query = core.newInstantQuery(database.layout, Uint32Array.of(77), stream('entropy', 32))
    const [zero, one] = await Promise.all(
      [0, 1].map(async server => workers[server]!.answer(core, database, query.request(server as 0 | 1))),
    )
    one![300]! ^= 4
    expect(query.recon(commitments, zero!, one!)).toBeUndefined()
    one![300]! ^= 4
    expect(query.recon(commitments, zero!, one!)).toEqual(content.slice(77 * 48, 78 * 48))
    query.free()
  })

  test('make light hints at both epochs, side by side with passes', async () => {
    const root = stream('root', 32)
    const before = database.layout
    const old = core.newLightAttempt(before, commitments, root)
    const requests = [old.paritiesRequest(), old.tagsRequest()] as const
    const begin = (previous: boolean) => [
      core.newLightParities(database, requests[0], previous),
      core.newLightTags(database, requests[1], previous),
    ]
    const query = core.newInstantQuery(before, Uint32Array.of(5), stream('entropy', 32))
    const [parities, tags, answer] = await Promise.all([
      ...begin(false).map((reply, i) => workers[i]!.make(database, reply)),
      workers[2]!.answer(core, database, query.request(0)),
    ])
    expect(answer).toEqual(answerHere(core, database, query.request(0)))
    expect(digests([parities!, tags!])).toEqual(digests(begin(false).map(reply => makeHere(database, reply))))
    query.free()

    // An edit, a deletion, and as many additions as open a partition.
    const count = 2 + 1251
    const kinds = Uint8Array.from({ length: count }, (_, i) => (i === 0 ? 2 : i === 1 ? 3 : 1))
    const indices = Uint32Array.from({ length: count }, (_, i) => (i === 0 ? 3 : i === 1 ? 5000 : 0))
    database.applyKeyless(kinds, indices, stream('batch', 48 * count)).free()
    expect(database.layout.partitions).toBe(17)
    const again = await Promise.all(begin(true).map((reply, i) => workers[i]!.make(database, reply)))
    expect(digests(again)).toEqual(digests([parities!, tags!]))
    const newest = await Promise.all(begin(false).map((reply, i) => workers[i]!.make(database, reply)))
    expect(digests(newest)).toEqual(digests(begin(false).map(reply => makeHere(database, reply))))
    expect(digests(newest)[1]).not.toEqual(digests(again)[1])

    const outcome = finished(core, old, parities!, tags!)
    outcome.takeHint()!.free()
  })
})
