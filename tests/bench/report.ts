// Figures against their targets, as a table that reads well in a terminal and in Markdown.

import { aligned } from './document.js'

export interface Figure {
  /** figures of one name stand in one row */
  readonly name: string
  /** figures of one row and one column stand in one cell; none: the figure is its whole row */
  readonly column?: string | undefined
  readonly unit: string
  /** the median stays below, or is at most that, or within 20 % of what the design says. None: shown for comparison */
  readonly target?: Target | undefined
  /** none: it cannot be measured here */
  readonly samples: readonly number[]
}

export type Target = readonly ['<' | '≤' | 'design', number]

const AS_DESIGNED = 1.2

/** Figures that belong together. */
export interface Section {
  readonly title: string
  readonly figures: readonly Figure[]
  /** in place of the table of its figures */
  readonly table?: string
}

/** What stands below the title. */
export function tablesOf({ figures, table }: Section): string {
  return table ?? report(figures)
}

export function passed({ target, samples }: Figure): boolean {
  if (target === undefined || samples.length === 0) return true
  const [how, limit] = target
  if (how === '<') return median(samples) < limit
  return median(samples) <= (how === 'design' ? AS_DESIGNED * limit : limit)
}

/** A row for every name, a column for every column; then those without one, in a table of their own. */
function report(figures: readonly Figure[]): string {
  const [alone, others] = [true, false].map(is => figures.filter(({ column }) => (column === undefined) === is))
  return [others!, alone!]
    .filter(({ length }) => length > 0)
    .map(pivoted)
    .join('\n\n')
}

function pivoted(figures: readonly Figure[]): string {
  const columns = [...new Set(figures.map(({ column }) => column))]
  const names = [...new Set(figures.map(({ name }) => name))]
  const cell = (name: string, of: string | undefined) =>
    figures
      .filter(({ name: row, column }) => row === name && column === of)
      .map(shown)
      .join('; ')
  const heads = columns.map((column = 'median (least–most)') => column)
  return aligned([['', ...heads], ...names.map(name => [name, ...columns.map(column => cell(name, column))])])
}

/** `median (least–most) unit, target ✓`, of a design's figure with the median's ratio to it */
function shown(figure: Figure): string {
  const { unit, target, samples } = figure
  if (samples.length === 0) return 'not measured'
  const ratio = target?.[0] === 'design' ? `: × ${round(median(samples) / target[1])}` : ''
  const judged = target === undefined ? '' : `, ${target[0]} ${target[1]}${ratio} ${passed(figure) ? '✓' : '✗'}`
  return `${round(median(samples))}${spread(samples)}${unit && ` ${unit}`}${judged}`
}

export function median(samples: readonly number[]): number {
  const sorted = ascending(samples)
  const middle = sorted.length / 2
  return (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2
}

/** The least sample that is not below a `share` of all. */
export function quantile(samples: readonly number[], share: number): number {
  return ascending(samples)[Math.max(0, Math.ceil(share * samples.length) - 1)]!
}

function ascending(samples: readonly number[]): number[] {
  return [...samples].sort((a, b) => a - b)
}

function spread(samples: readonly number[]): string {
  const [least, most] = [quantile(samples, 0), quantile(samples, 1)].map(round)
  return least === most ? '' : ` (${least}–${most})`
}

/** Three digits that count. */
function round(value: number): string {
  return `${Number(value.toPrecision(3))}`
}
