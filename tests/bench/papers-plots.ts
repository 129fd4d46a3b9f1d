// The plots of docs/papers.md, from docs/papers.csv, both of which `npm run papers` writes (rust-core/papers). Ours
// with full lines, the papers' with broken ones; records of 32 bytes, of 64 for Pai.

import { mkdir, readFile, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Comparison, writePlot } from './document.js'
import type { Row, Unit } from './plot.js'

/** A line of papers.csv. */
interface Figure {
  readonly table: string
  readonly row: string
  readonly column: string
  /** `paper` as printed there, with its unit; `seconds`, `bytes`, or `formula` for bytes that were not counted */
  readonly kind: string
  readonly value: string
  readonly least: string
  readonly most: string
}

/** Whose figures of which table make a line of a plot. */
interface Series {
  readonly name: string
  /** how the table's title begins */
  readonly table: string
  /** how the rows' names begin */
  readonly rows: string
}

const PLOTS: readonly (Omit<Comparison['plot'], 'rows' | 'dashed' | 'x'> & {
  readonly file: string
  readonly recordBytes: number
  /** those of the tables that it shows */
  readonly columns: readonly string[]
  readonly series: readonly Series[]
})[] = [
  {
    file: 'offline-time.svg',
    ...{ title: 'Offline', y: 'time of the client or of the server that does it', unit: 'seconds', recordBytes: 32 },
    columns: ['offline'],
    series: [
      series('S3PIR, one server', 'S3PIR, Table 3', 'AES'),
      series('S3PIR, two servers', 'S3PIR, Table 2', 'AES'),
      series('TreePIR', 'TreePIR', 'AES'),
      series('SinglePass', 'TAPIR', 'SinglePass'),
      series('S3PIR, one server, paper', 'S3PIR, Table 3', 'paper'),
      series('S3PIR, two servers, paper', 'S3PIR, Table 2', 'paper'),
      series('TreePIR by S3PIR’s authors', 'TreePIR', 'S3PIR'),
      series('SinglePass by TAPIR’s authors', 'TAPIR', 'paper, SinglePass'),
    ],
  },
  {
    file: 'lookup-time.svg',
    ...{ title: 'A lookup', y: 'time of the client and all servers', unit: 'seconds', recordBytes: 32 },
    columns: ['online', 'online, search stops at a hit'],
    series: [
      series('S3PIR, one server', 'S3PIR, Table 3', 'AES'),
      series('S3PIR, two servers', 'S3PIR, Table 2', 'AES'),
      series('TreePIR', 'TreePIR', 'AES'),
      series('SinglePass', 'TAPIR', 'SinglePass'),
      series('APIR-DPF', 'TAPIR', 'APIR-DPF'),
      series('S3PIR, one server, paper', 'S3PIR, Table 3', 'paper'),
      series('TreePIR by S3PIR’s authors', 'TreePIR', 'S3PIR'),
      series('APIR-DPF by TAPIR’s authors', 'TAPIR', 'paper, APIR-DPF'),
    ],
  },
  {
    file: 'lookup-bytes.svg',
    ...{ title: 'A lookup', y: 'bytes, both directions and all servers', unit: 'bytes', recordBytes: 32 },
    columns: ['online bytes'],
    series: [
      series('S3PIR, one server', 'S3PIR, Table 3', 'AES'),
      series('TreePIR', 'TreePIR', 'AES'),
      series('SinglePass', 'TAPIR', 'SinglePass'),
      series('APIR-DPF', 'TAPIR', 'APIR-DPF'),
      series('APIR-Matrix-MT', 'TAPIR', 'APIR-Matrix-MT'),
      series('APIR-DPF, paper', 'TAPIR', 'paper, APIR-DPF'),
      series('APIR-Matrix-MT, paper', 'TAPIR', 'paper, APIR-Matrix'),
    ],
  },
  {
    file: 'pai-offline-time.svg',
    ...{ title: 'Pai’s family offline', y: 'time; the paper’s of eight threads', unit: 'seconds', recordBytes: 64 },
    columns: ['offline'],
    series: [
      series('Pai', 'Pai, Table 2', 'as published'),
      series('PaiKSPIR', 'Pai, Table 3', 'as published'),
      series('PaiCKSPIR', 'Pai, Table 4', 'as published'),
      series('Pai, all cells permuted', 'Pai, Table 2', 'full'),
      series('Pai, paper', 'Pai, Table 2', 'paper'),
      series('PaiKSPIR, paper', 'Pai, Table 3', 'paper'),
      series('PaiCKSPIR, paper', 'Pai, Table 4', 'paper'),
    ],
  },
]

function series(name: string, table: string, rows: string): Series {
  return { name, table, rows }
}

/** `npm run papers`: draws the plots beside a papers.csv; `--to` says in which folder it is. */
export async function papers(args: string[]): Promise<number> {
  const to = args.indexOf('--to')
  const folder =
    to >= 0 && args[to + 1] !== undefined
      ? pathToFileURL(`${resolve(args[to + 1]!)}/`)
      : new URL('../../docs/', import.meta.url)
  const figures = parse(await readFile(new URL('papers.csv', folder), 'utf8'))
  const plots = new URL('plots/papers/', folder)
  await rm(plots, { recursive: true, force: true })
  await mkdir(plots, { recursive: true })
  for (const comparison of comparisons(figures)) await writePlot(plots, comparison)
  return 0
}

/** The plots. Throws RangeError for a series that no figure fits. */
export function comparisons(figures: readonly Figure[]): Comparison[] {
  return PLOTS.map(({ file, series, columns, recordBytes, title, y, unit }) => ({
    file,
    plot: {
      ...{ title, y, unit, x: `records (N) of ${recordBytes} bytes` },
      rows: series.flatMap(each => rowsOf(figures, each, columns, recordBytes, unit)),
      dashed: series.filter(({ name }) => / paper$| by /.test(name)).map(({ name }) => name),
    },
  }))
}

function rowsOf(
  figures: readonly Figure[],
  series: Series,
  columns: readonly string[],
  recordBytes: number,
  unit: Unit,
): Row[] {
  const rows = figures
    .filter(
      ({ table, row, column }) =>
        table.startsWith(series.table) && row.startsWith(series.rows) && columns.includes(column),
    )
    .flatMap(({ row, kind, value, least, most }) => {
      const [, exponent, bytes = recordBytes] = /2\^(\d+)(?: × (\d+) B)?$/.exec(row) ?? []
      if (exponent === undefined || Number(bytes) !== recordBytes) return []
      const median = kind === 'paper' ? amount(value, unit) : Number(value)
      const spread = least === '' ? {} : { min: Number(least), max: Number(most) }
      return [{ series: series.name, x: 2 ** Number(exponent), median, ...spread }]
    })
  if (rows.length === 0) throw new RangeError(`${series.name}: papers.csv has no such figures`)
  return rows
}

const UNITS: Record<Unit, Record<string, number>> = {
  seconds: { s: 1, ms: 1e-3 },
  bytes: { B: 1, KB: 2 ** 10, KiB: 2 ** 10, MB: 2 ** 20 },
  count: {},
}

/** What a paper prints, as a number: `0.12 ms`. */
function amount(text: string, unit: Unit): number {
  const [number, name = ''] = text.split(' ')
  const each = UNITS[unit][name]
  if (each === undefined) throw new RangeError(`expected ${Object.keys(UNITS[unit]).join(' or ')}, got ${text}`)
  return Number(number) * each
}

/** A line for every figure; texts stand in quotation marks and have none. */
export function parse(csv: string): Figure[] {
  return csv
    .trim()
    .split('\n')
    .slice(1)
    .map(line => {
      const cells = [...line.matchAll(/(?:^|,)(?:"([^"]*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted ?? plain ?? '',
      )
      if (cells.length !== 7) throw new RangeError(`expected seven cells, got ${line}`)
      const [table = '', row = '', column = '', kind = '', value = '', least = '', most = ''] = cells
      return { table, row, column, kind, value, least, most }
    })
}
