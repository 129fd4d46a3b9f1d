// A comparison in a document: the same rows as a Markdown table and as a plot beside it.

import { readFile, writeFile } from 'node:fs/promises'
import { type Plot, plot, power, type Row, type Scale, scaleFor, type Unit } from './plot.js'

export interface Comparison {
  /** the plot's file, without its folder */
  readonly file: string
  readonly plot: Plot
}

/** A row for every x, a column for every series: `median (min–max)`, all in one unit; empty where there is none. */
export function table({ unit, rows }: Pick<Plot, 'unit' | 'rows'>): string {
  const series = [...new Set(rows.map(row => row.series))]
  const xs = [...new Set(rows.map(row => row.x))].sort((a, b) => a - b)
  const scale = scaleOf(rows, unit)
  const cell = ({ median, min = median, max = median }: Row) => {
    const [middle, least, most] = [median, min, max].map(value => scale.shown(value))
    return least === most ? middle! : `${middle} (${least}–${most})`
  }
  const lines = xs.map(x => [
    power(x),
    ...series.map(name => {
      const row = rows.find(row => row.x === x && row.series === name)
      return row === undefined ? '' : cell(row)
    }),
  ])
  return aligned([['N', ...series], ...lines])
}

/** The unit that suits most of the rows. */
function scaleOf(rows: readonly Row[], unit: Unit): Scale {
  const medians = rows.map(({ median }) => median).sort((a, b) => a - b)
  return scaleFor(medians[medians.length >> 1]!, unit)
}

/** A table's heading: what it shows, and in which unit. */
export function heading({ title, y, unit, rows }: Omit<Plot, 'x'>): string {
  const { name } = scaleOf(rows, unit)
  return `${title}: ${y}${name && ` (${name})`}`
}

/** Lines of cells as a Markdown table: the first line its head, the first column to the left, the others to the right. */
export function aligned(lines: readonly (readonly string[])[]): string {
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map(line => line[column]!.length)))
  const written = lines.map(
    line => `| ${line.map((each, i) => (i === 0 ? each.padEnd(widths[i]!) : each.padStart(widths[i]!))).join(' | ')} |`,
  )
  const rule = `| ${widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [written[0]!, rule, ...written.slice(1)].join('\n')
}

/** Its part of a document in docs/: a heading, the plot, whose file is in docs/plots/, and the table. */
export function markdown({ file, plot }: Comparison): string {
  return `### ${heading(plot)}\n\n![${plot.title}: ${plot.y}](plots/${file})\n\n${table(plot)}\n`
}

/** Writes the plot into `folder`. */
export async function writePlot(folder: URL, comparison: Comparison): Promise<void> {
  await writeFile(new URL(comparison.file, folder), plot(comparison.plot))
}

const DOCS = new URL('../../docs/', import.meta.url)

/** What stands in a document between the lines `<!-- NAME … -->` and `<!-- end of NAME -->`. */
export function between(document: string, name: string): string {
  const [begin, end] = placeOf(document, name)
  return document.slice(begin, end)
}

/** Writes it, into a file of docs/. */
export async function writeBetween(file: string, name: string, text: string): Promise<void> {
  const path = new URL(file, DOCS)
  const document = await readFile(path, 'utf8')
  const [begin, end] = placeOf(document, name)
  await writeFile(path, `${document.slice(0, begin)}\n${text}\n\n${document.slice(end)}`)
}

function placeOf(document: string, name: string): readonly [number, number] {
  const opening = document.indexOf(`<!-- ${name}: `)
  const begin = document.indexOf('\n', opening) + 1
  const end = document.indexOf(`<!-- end of ${name} -->`)
  if (opening === -1 || end < begin) throw new Error(`no place is marked for ${name}`)
  return [begin, end]
}
