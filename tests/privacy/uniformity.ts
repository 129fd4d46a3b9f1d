// Whether what a server sees is uniform and independent, for each of five ways to use a client, at N = 256, Q = M = 16.
// The probability that a faultless client is suspected of anything is 10⁻⁹ over all seeds.

import { Words } from '../interop/reference/random.js'
import { stream } from '../interop/vectors.js'
import { type Statistic, statistics } from './statistics.js'
import { type Attempt, layout, type Subject } from './subjects.js'

const FALSE_ALARM = 1e-9

export interface Scale {
  readonly seed: string
  /** an even number */
  readonly lookups: number
}

/** A way to use clients: the attempts of all lookups, in order. */
type Usage = (subject: Subject, scale: Scale) => Attempt[]

const oneClient =
  (indexOf: (t: number) => number, lostOf: (t: number) => number = () => 0): Usage =>
  (subject, { seed, lookups }) => {
    const client = subject(seed)
    const attempts = Array.from({ length: lookups }, (_, t) => client.lookUp(indexOf(t), lostOf(t))).flat()
    client.close()
    return attempts
  }

const usages = {
  'one index again and again': oneClient(() => 37),
  'two indices in turn': oneClient(t => (t % 2 === 0 ? 37 : 200)),
  'indices at random': (subject, scale) => {
    const words = new Words(stream(`${scale.seed}, indices`, 32), 0)
    return oneClient(() => words.below(layout.records))(subject, scale)
  },
  'every fourth answer lost': oneClient(
    () => 37,
    t => (t % 4 === 3 ? 1 : 0),
  ),
  'a new client for every two lookups': (subject, { seed, lookups }) =>
    Array.from({ length: lookups / 2 }, (_, i) => {
      const client = subject(`${seed}, client ${i}`)
      const attempts = [...client.lookUp(37, 0), ...client.lookUp(37, 0)]
      client.close()
      return attempts
    }).flat(),
} satisfies Record<string, Usage>

export type UsageName = keyof typeof usages
export const usageNames = Object.keys(usages) as UsageName[]

/** The statistics of both servers that are too unlikely. */
export function suspicious(subject: Subject, usage: UsageName, scale: Scale): Statistic[] {
  const attempts = usages[usage](subject, scale)
  const all = (['retrieve', 'refresh'] as const).flatMap(role =>
    statistics(
      attempts.map(attempt => attempt[role]),
      layout.partitionRecords,
    ).map(({ name, pValue }) => ({ name: `${role} server, ${name}`, pValue })),
  )
  const tests = all.length * usageNames.length
  return all.filter(({ pValue }) => pValue < FALSE_ALARM / tests)
}
