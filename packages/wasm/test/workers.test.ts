// Tests instant passes in the server's worker threads, over one shared copy of the database. The answers equal those of the core's own
// thread, whatever runs at the same time, and while the memory grows.

import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { type Core, type DatabaseHandle, loadCore } from '@keyhush/wasm'
import { blake3 } from '@noble/hashes/blake3.js'
import { concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const stream = (label: string, bytes: number) => blake3(utf8ToBytes(label), { dkLen: bytes })
const WORKERS = 4

/** A worker thread that runs one pass at a time. */
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
    const worker = new Worker(new URL('../../../server/dist/workers/thread.js', import.meta.url), { workerData })
    await once(worker, 'online')
    return new PassWorker(worker, stack)
  }

  async answer(core: Core, database: DatabaseHandle, queries: Uint8Array): Promise<Uint8Array> {
    const pass = core.newInstantPass(database, queries, flags(database, queries))
    try {
      await this.#run(pass.descriptor(database))
      pass.stepped()
      return pass.finish(database)
    } finally {
      pass.free()
    }
  }

  async #run(descriptor: number): Promise<void> {
    const done = once(this.#worker, 'message')
    this.#worker.postMessage(descriptor)
    await done
  }

  async stop(): Promise<void> {
    await this.#worker.terminate()
    this.#stack.free()
  }
}

const flags = (database: DatabaseHandle, queries: Uint8Array) =>
  new Uint8Array(queries.length / database.layout.instantRequestBytes)

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

  test('all threads share one memory', () => {
    expect(Object.prototype.toString.call(core.memory.buffer)).toBe('[object SharedArrayBuffer]')
  })

  test.each([1, 3, 16])(
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
          const found = query.recon(commitments, concatBytes(...answers))
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

  test('an answer with one bit changed is refused', async () => {
    const query = core.newInstantQuery(database.layout, Uint32Array.of(77), stream('entropy', 32))
    const [zero, one] = await Promise.all(
      [0, 1].map(async server => workers[server]!.answer(core, database, query.request(server))),
    )
    one![300]! ^= 4
    expect(query.recon(commitments, concatBytes(zero!, one!))).toBeUndefined()
    one![300]! ^= 4
    expect(query.recon(commitments, concatBytes(zero!, one!))).toEqual(content.slice(77 * 48, 78 * 48))
    query.free()
  })
})
