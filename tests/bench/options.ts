// What a run of the bench is asked for.

import { parseArgs } from 'node:util'
import type { Target } from './report.js'
import type { Shape } from './stage.js'

export const PARTS = [
  'compute',
  'lookups',
  'instant',
  'one-server',
  'living',
  'nights',
  'shards',
  'watch',
  'filter',
  'visits',
  'phones',
  'papers',
] as const
export type Part = (typeof PARTS)[number]

/** Not asked for unless by name, or everything is. */
const LONG: readonly Part[] = ['one-server', 'phones', 'papers']

/** The papers' N. */
const SIZES = [2 ** 16, 2 ** 18, 2 ** 20, 3_000_000, 2 ** 22, 2 ** 24]

/** N of first visits. */
const VISITS = [2 ** 16, 2 ** 20, 2 ** 22]

export interface Options {
  readonly shape: Shape
  /** operations of the largest batch */
  readonly adds: number
  /** of everything that is timed as a whole */
  readonly repeats: number
  /** of each kind of map, in each repetition */
  readonly lookups: number
  readonly parts: ReadonlySet<Part>
  /** N of the papers' tables */
  readonly sizes: readonly number[]
  /** N of first visits */
  readonly visits: readonly number[]
  /** whether what takes long is measured, too */
  readonly all: boolean
  /** whether the tables go into docs/benchmarks.md */
  readonly write: boolean
}

export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      records: { type: 'string', default: `${2 ** 20}` },
      'record-bytes': { type: 'string', default: '32' },
      adds: { type: 'string', default: '1600000' },
      repeats: { type: 'string', default: '7' },
      lookups: { type: 'string', default: '100' },
      all: { type: 'boolean', default: false },
      only: { type: 'string' },
      sizes: { type: 'string', default: SIZES.join() },
      visits: { type: 'string', default: VISITS.join() },
      write: { type: 'boolean', default: false },
    },
  })
  const whole = values.write && values.only === undefined
  const parts =
    values.only?.split(',') ?? PARTS.filter(part => !LONG.includes(part) || values.all || (whole && part !== 'phones'))
  for (const part of parts) if (!isPart(part)) throw new Error(`--only: expected ${PARTS.join(', ')}, got ${part}`)
  return {
    shape: {
      records: count('--records', values.records),
      recordBytes: count('--record-bytes', values['record-bytes']),
    },
    adds: count('--adds', values.adds),
    repeats: count('--repeats', values.repeats),
    lookups: count('--lookups', values.lookups),
    parts: new Set(parts as Part[]),
    sizes: counts('--sizes', values.sizes),
    visits: counts('--visits', values.visits),
    all: values.all || whole,
    write: values.write,
  }
}

/** A target, if the database is the one that targets are for: N = 2^20, ℓ = 32. */
export function target({ shape }: Options, how: Target[0], limit: number): Target | undefined {
  return shape.records === 2 ** 20 && shape.recordBytes === 32 ? [how, limit] : undefined
}

function isPart(text: string): text is Part {
  return (PARTS as readonly string[]).includes(text)
}

function counts(option: string, text: string): number[] {
  return text
    .split(',')
    .map(each => count(option, each))
    .sort((a, b) => a - b)
}

function count(option: string, text: string): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 1) throw new Error(`${option}: expected a whole number, got ${text}`)
  return number
}
