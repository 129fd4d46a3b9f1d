// Figures against their targets, as a table that reads well in a terminal and in Markdown.

import { readFile, writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
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

// Writes tables into docs/benchmarks.md, each below its heading. What stands around them is written by hand.

/** Readers do not know the design's figures. */
const withoutDesign = (section: Section): Section => ({
  ...section,
  figures: section.figures.map(figure => (figure.target?.[0] === 'design' ? { ...figure, target: undefined } : figure)),
})

/** Lines of cells, and empty lines between them. */
const TABLES = /(?:^\|.*\n+)+/m

/** Sections for which the document has no heading are printed only. */
export async function writeTables(sections: readonly Section[]): Promise<void> {
  const file = new URL('../../docs/benchmarks.md', import.meta.url)
  const parts = (await readFile(file, 'utf8')).split(/^(?=##)/m)
  for (const section of sections) {
    const at = parts.findIndex(part => nameOf(part.replace(/^#+ /, '')) === nameOf(section.title))
    if (at >= 0) parts[at] = withTables(parts[0]!, parts[at]!, section)
  }
  await writeFile(file, `${parts.join('').trimEnd()}\n`)
}

/** A title without the unit that may stand in brackets at its end. */
function nameOf(title: string): string {
  return title.split('\n', 1)[0]!.replace(/ \([^ ]+\)$/, '')
}

/** The head of the document names the machine that most of it was measured on; another stands below its heading. */
function withTables(head: string, part: string, section: Section): string {
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`
  const measured = head.includes(machine) ? '' : `\nMeasured on ${machine}.\n`
  const [level] = part.split(' ', 1)
  const text = part.replace(/^.*\n/, '').replace(/\nMeasured on .*\n/, '')
  return `${level} ${section.title}\n${measured}${text.replace(TABLES, () => `${tablesOf(withoutDesign(section))}\n\n`)}`
}
