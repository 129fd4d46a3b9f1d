// What a server sees is uniform and independent, whatever is looked up: 20 000 lookups at N = 256, Q = M = 16 for each
// of five ways to use a client. The probability that a faultless client fails any of these tests is 10⁻⁹ over all
// seeds; the seed is fixed, so that they are not flaky either. Clients with planted defects must fail.
// (Joint uniformity is enumerated exactly at tiny sizes in rust-core; this is the same law at a larger size.)

import { describe, expect, test } from 'vitest'
import { Words } from '../interop/reference/random.js'
import { stream } from '../interop/vectors.js'
import { type Statistic, statistics } from './statistics.js'
import { type Attempt, layout, referenceSubject, type Subject, type SubjectDefects, wasmSubject } from './subjects.js'

const SEED = process.env['PIROUETTE_PRIVACY_SEED'] ?? 'pirouette'
const LOOKUPS = 20_000
const FALSE_ALARM = 1e-9

/** A way to use clients: the attempts of all lookups, in order. */
type Usage = (subject: Subject) => Attempt[]

const oneClient =
  (indexOf: (t: number) => number, lostOf: (t: number) => number = () => 0): Usage =>
  subject => {
    const client = subject(SEED)
    const attempts = Array.from({ length: LOOKUPS }, (_, t) => client.lookUp(indexOf(t), lostOf(t))).flat()
    client.close()
    return attempts
  }

const usages = {
  'one index again and again': oneClient(() => 37),
  'two indices in turn': oneClient(t => (t % 2 === 0 ? 37 : 200)),
  'indices at random': subject => {
    const words = new Words(stream(`${SEED}, indices`, 32), 0)
    return oneClient(() => words.below(layout.records))(subject)
  },
  'every fourth answer lost': oneClient(
    () => 37,
    t => (t % 4 === 3 ? 1 : 0),
  ),
  'a new client for every two lookups': subject =>
    Array.from({ length: LOOKUPS / 2 }, (_, i) => {
      const client = subject(`${SEED}, client ${i}`)
      const attempts = [...client.lookUp(37, 0), ...client.lookUp(37, 0)]
      client.close()
      return attempts
    }).flat(),
} satisfies Record<string, Usage>

type UsageName = keyof typeof usages
const usageNames = Object.keys(usages) as UsageName[]

/** The statistics of both servers that are less likely than chance allows. */
function suspicious(subject: Subject, usage: UsageName): Statistic[] {
  const attempts = usages[usage](subject)
  const all = (['retrieve', 'refresh'] as const).flatMap(role =>
    statistics(
      attempts.map(attempt => attempt[role]),
      layout.partitionRecords,
    ).map(({ name, pValue }) => ({ name: `${role} server, ${name}`, pValue })),
  )
  const tests = all.length * usageNames.length
  return all.filter(({ pValue }) => pValue < FALSE_ALARM / tests)
}

describe(`with seed "${SEED}"`, async () => {
  const wasm = await wasmSubject()

  test.each(usageNames)('the core shows nothing: %s', usage => {
    expect(suspicious(wasm, usage)).toEqual([])
  })

  test.each(usageNames)('nor does the reference without defects: %s', usage => {
    expect(suspicious(referenceSubject(), usage)).toEqual([])
  })

  test.each<[string, SubjectDefects, UsageName]>([
    ['a constant seed', { constantSeed: true }, 'a new client for every two lookups'],
    ['no swaps', { noSwap: true }, 'one index again and again'],
    ['no swaps', { noSwap: true }, 'two indices in turn'],
    ['r* ≠ m*', { dummyAvoidsRecord: true }, 'one index again and again'],
    ['r* ≠ m*', { dummyAvoidsRecord: true }, 'a new client for every two lookups'],
    ['r_q ≠ ind', { refreshAvoidsColumn: true }, 'one index again and again'],
    ['r_q ≠ ind', { refreshAvoidsColumn: true }, 'two indices in turn'],
    ['retries with fresh r', { freshRetry: true }, 'every fourth answer lost'],
  ])('%s would be seen', (_, defects, usage) => {
    expect(suspicious(referenceSubject(defects), usage)).not.toEqual([])
  })
})
