// Answers that threads prove, with stand-ins for threads: who waits for whom, how much may wait, and that nobody else does.

import { HEADER_BYTES, suiteOf } from '@keyhush/protocol'
import { expect, test, vi } from 'vitest'
import { FixedEpochs } from '../dist/database/fixed-epochs.js'
import type { RowProofs } from '../dist/dataset/proof-kinds.js'
import type { Dataset } from '../dist/index.js'
import { ProvedAnswers } from '../dist/instant/proved.js'
import { builtDataset, logged, pseudoRandom, queryAt, running } from './helpers.js'

const RECORD_BYTES = 24

interface Asked {
  readonly epoch: number
  readonly entries: number
  finish(): void
  fail(): void
}

/** A dataset whose answers with tags are proved by a thread: a test that says when it is done. */
async function provedElsewhere(partitions = 4) {
  const whole = await builtDataset('a.bin', pseudoRandom(400 * RECORD_BYTES), {
    recordBytes: RECORD_BYTES,
    proofs: 'tags',
    partitions,
  })
  const asked: Asked[] = []
  const openings: Pick<RowProofs, 'suite' | 'unproved'> = {
    suite: suiteOf('tags'),
    unproved: (body, queries, { manifest: { epoch } }) => ({
      entries: queries.length / 2,
      prove: () =>
        new Promise((resolve, reject) => {
          const finish = () => resolve(body)
          asked.push({ epoch, entries: queries.length / 2, finish, fail: () => reject(new Error('it has ended')) })
        }),
    }),
  }
  const dataset = { ...whole, openings } as Dataset
  return { dataset, asked, genuine: new FixedEpochs(whole).newest }
}

type App = Awaited<ReturnType<typeof running>>

const answerTo = (app: App, payload: Buffer, remoteAddress = '192.0.2.1') =>
  app.inject({ method: 'POST', url: '/v1/answer', payload, remoteAddress })

test('an answer is sent when it is proved; meanwhile others are answered', async () => {
  const { dataset, asked, genuine } = await provedElsewhere()
  const app = await running({ datasets: [{ dataset }] })
  const query = queryAt(dataset.manifest, 3)
  const reply = answerTo(app, query)
  await vi.waitFor(() => expect(asked).toHaveLength(1))
  expect(asked[0]).toMatchObject({ epoch: 1, entries: 4 })
  expect((await app.inject('/v1/info')).statusCode).toBe(200)
  asked[0]!.finish()
  const { statusCode, rawPayload } = await reply
  expect(statusCode).toBe(200)
  const body = genuine.answer(query.subarray(HEADER_BYTES), suiteOf('tags')) as Uint8Array
  expect(rawPayload.subarray(HEADER_BYTES)).toEqual(Buffer.from(body))
})

test('a thread that fails: the answer is refused as passing, the log has it, and the next is proved', async () => {
  const { dataset, asked } = await provedElsewhere()
  const { lines, log } = logged('warn')
  const app = await running({ datasets: [{ dataset }], log })
  const query = queryAt(dataset.manifest, 3)
  const first = answerTo(app, query)
  await vi.waitFor(() => expect(asked).toHaveLength(1))
  asked[0]!.fail()
  const refused = await first
  expect([refused.statusCode, refused.json().code, refused.headers['retry-after']]).toEqual([503, 'not_ready', '1'])
  expect(lines.join()).toMatch(/ThreadError/)
  const second = answerTo(app, query)
  await vi.waitFor(() => expect(asked).toHaveLength(2))
  asked[1]!.finish()
  expect((await second).statusCode).toBe(200)
})

test('records that are proved count for more with the limit of a client', async () => {
  const { dataset, asked } = await provedElsewhere()
  const app = await running({ datasets: [{ dataset }], rateLimit: 8 })
  const replies = [1, 2].map(() => answerTo(app, queryAt(dataset.manifest, 3)))
  await vi.waitFor(() => expect(asked).toHaveLength(1))
  asked[0]!.finish()
  const statuses = (await Promise.all(replies)).map(({ statusCode }) => statusCode)
  expect(statuses.sort()).toEqual([200, 429]) // 4 records, twice as heavy as a query each
})

/** Answers that wait; each is proved when the test says so. */
function waiting(most: number) {
  const proved = new ProvedAnswers(most)
  const begun: string[] = []
  const ends: Record<string, () => void> = {}
  const outcomes: Record<string, string> = {}
  const submit = (name: string, entries: number, network = name[0]!) => {
    const prove = () =>
      new Promise<Uint8Array>(resolve => {
        begun.push(name)
        ends[name] = () => resolve(new Uint8Array())
      })
    const { answers, cancel } = proved.submit({ entries, prove }, network)
    answers.then(
      () => {
        outcomes[name] = 'proved'
      },
      error => {
        outcomes[name] = error.code
      },
    )
    return cancel
  }
  const end = async (name: string) => {
    ends[name]!()
    await vi.waitFor(() => expect(outcomes[name]).toBe('proved'))
  }
  return { proved, begun, outcomes, submit, end }
}

test('networks take turns, and so many are proved at a time', async () => {
  const { proved, begun, submit, end } = waiting(2)
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1']) submit(name, 10)
  expect([begun, proved.proving, proved.waiting]).toEqual([['a1', 'a2'], 2, 30])
  await end('a1')
  expect(begun).toEqual(['a1', 'a2', 'a3'])
  await end('a2')
  expect(begun).toEqual(['a1', 'a2', 'a3', 'b1'])
})

test('what waits is bounded by its records: the newest of whoever has most gives way, and who has most waits no more', async () => {
  const { proved, outcomes, submit } = waiting(1)
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) submit(name, 2048)
  expect(() => submit('a6', 2048)).toThrow(/too many answers wait/)
  submit('b1', 2048)
  await vi.waitFor(() => expect(outcomes).toEqual({ a5: 'instant_full' }))
  expect(proved.waiting).toBe(8192)
})

test('what is being proved takes no room from what waits, however much it is', async () => {
  const { begun, submit, end } = waiting(1)
  submit('a1', 100_000)
  submit('b1', 16)
  await end('a1')
  expect(begun).toEqual(['a1', 'b1'])
})

test('a client that hangs up is waited for no longer', async () => {
  const { proved, begun, submit, end } = waiting(1)
  submit('a1', 10)
  submit('b1', 10)()
  submit('c1', 10)
  expect(proved.waiting).toBe(10)
  await end('a1')
  expect(begun).toEqual(['a1', 'c1'])
})

test('close() waits for what waits, and nothing else is taken on', async () => {
  const { proved, outcomes, submit, end } = waiting(1)
  submit('a1', 10)
  submit('b1', 10)
  const closing = proved.close()
  expect(() => submit('c1', 10)).toThrow(/shutting down/)
  await end('a1')
  await end('b1')
  await closing
  expect(outcomes).toEqual({ a1: 'proved', b1: 'proved' })
})
