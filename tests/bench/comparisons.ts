// The papers' tables, ours beside theirs: from what the sweep measured to rows of tables and plots.

import type { EntryProofs } from '@keyhush/protocol'
import { CHANGES, PROOFS } from './compute.js'
import { aligned, type Comparison } from './document.js'
import { FIG_9, type Figure, published, TABLE_2 } from './papers.js'
import { format, type Plot, type Row, type Unit } from './plot.js'
import { median, quantile } from './report.js'
import {
  LAYOUTS,
  type LayoutFigures,
  type LayoutKind,
  type Quantity,
  type SizeFigures,
  TABLE_2_RECORDS,
  type UpdateFigures,
} from './sweep.js'
import { KINDS, nameOf, type VisitFigures } from './visits.js'

const X = 'records (N) of 32 bytes'
const PLACE: Record<LayoutKind, string> = { planned: '', root: ', Q = √N' }

/** A row, unless nothing was measured. Its spread leaves a tenth out at either end: one lookup of a hundred says little. */
function row(series: string, x: number, samples: readonly number[]): Row[] {
  if (samples.length === 0) return []
  return [{ series, x, median: median(samples), min: quantile(samples, 0.1), max: quantile(samples, 0.9) }]
}

/** A row for both kinds of proof and both Q, at every N. */
function ours(sizes: readonly SizeFigures[], quantity: Quantity): Row[] {
  return LAYOUTS.flatMap(layout =>
    PROOFS.flatMap(proofs =>
      sizes.flatMap(({ records, layouts }) =>
        row(proofs + PLACE[layout], records, layouts[layout].proofs[proofs][quantity]),
      ),
    ),
  )
}

/** A row for both Q, at every N. */
function perLayout(sizes: readonly SizeFigures[], read: (figures: LayoutFigures) => readonly number[]): Row[] {
  const name = { planned: 'planned Q', root: 'Q = √N' }
  return LAYOUTS.flatMap(layout =>
    sizes.flatMap(({ records, layouts }) => row(name[layout], records, read(layouts[layout]))),
  )
}

function compared(
  file: string,
  title: string,
  y: string,
  unit: Unit,
  rows: readonly Row[],
  theirs: readonly Row[] = [],
  x = X,
): Comparison {
  const dashed = [...new Set(theirs.map(({ series }) => series))]
  const plot: Plot = { title, y, unit, x, rows: [...rows, ...theirs], dashed }
  return { file: `bench/${file}`, plot }
}

/** TAPIR, Table 1. */
export function table1(all: readonly SizeFigures[]): Comparison[] {
  const sizes = all.filter(({ records }) => records !== TABLE_2_RECORDS)
  const theirs = (figure: Figure, ...schemes: string[]) => published(figure, schemes)
  const of = (quantity: Quantity) => ours(sizes, quantity)
  const plain = (series: string, read: (size: SizeFigures) => readonly number[]) =>
    sizes.flatMap(size => row(series, size.records, read(size)))
  return [
    compared(
      ...(['server-digests.svg', 'Digests', 'time of one server, once', 'seconds'] as const),
      perLayout(sizes, ({ digests }) => digests),
      theirs('serverSeconds', 'TAPIR-MT', 'APIR-Matrix-MT'),
    ),
    compared(
      ...(['offline-computing.svg', 'Computing the offline phase', 'time of a client', 'seconds'] as const),
      of('offlineComputing'),
      theirs('clientSeconds', 'TAPIR-MT', 'SinglePass'),
    ),
    compared(
      ...(['offline-chromium.svg', 'The whole offline phase in Chromium', 'time, durable state', 'seconds'] as const),
      [...of('offlineChromium'), ...plain('downloading everything', ({ plain }) => plain.everything)],
    ),
    compared(
      ...(['lookup-computing.svg', 'Computing a lookup', 'time of a client and both servers', 'seconds'] as const),
      of('lookupComputing'),
      theirs('lookupSeconds', 'TAPIR-MT', 'TAPIR-PP', 'APIR-DPF'),
    ),
    compared(...(['lookup-chromium.svg', 'A whole lookup in Chromium', 'time, durable state', 'seconds'] as const), [
      ...of('lookupChromium'),
      ...plain('a record without privacy', ({ plain }) => plain.record),
    ]),
    compared(
      ...(['tab-memory.svg', "A tab's process in Chromium", 'most memory, durable state', 'bytes'] as const),
      of('tabMemory'),
    ),
    compared(
      ...(['server-memory.svg', 'A server process', 'most memory, proofs and tags both offered', 'bytes'] as const),
      perLayout(sizes, ({ serverMemory }) => serverMemory),
    ),
  ].filter(({ plot }) => plot.rows.length > 0)
}

/** TAPIR, Fig. 9. */
export function fig9(all: readonly SizeFigures[]): Comparison[] {
  const sizes = all.filter(({ records }) => records !== TABLE_2_RECORDS)
  return LAYOUTS.flatMap(layout => {
    const file = layout === 'planned' ? '' : '-root'
    const title = `A change${PLACE[layout]}`
    const changes = (read: (figures: UpdateFigures) => readonly number[]) =>
      CHANGES.flatMap(change =>
        sizes.flatMap(({ records, layouts }) => row(change, records, read(layouts[layout].updates[change]))),
      )
    const perProofs = (read: (figures: UpdateFigures, proofs: EntryProofs) => readonly number[]) =>
      PROOFS.flatMap(proofs =>
        changes(figures => read(figures, proofs)).map(row => ({ ...row, series: `${row.series}, ${proofs}` })),
      )
    return [
      compared(
        `update-server${file}.svg`,
        title,
        'time of one server',
        'seconds',
        changes(({ server }) => server),
      ),
      compared(
        ...([`update-client${file}.svg`, title, 'time of a client', 'seconds'] as const),
        perProofs(({ client }, proofs) => client[proofs]),
        FIG_9.clientSeconds,
      ),
    ]
  })
}

/** First visits in all modes, of both kinds of database. */
export function firstVisits(visited: readonly VisitFigures[]): Comparison[] {
  return KINDS.flatMap(kind => {
    const figures = visited.filter(each => each.kind === kind)
    const modes = [...new Set(figures.flatMap(({ modes }) => Object.keys(modes)))]
    const of = (quantity: 'seconds' | 'bytes') =>
      modes.flatMap(mode =>
        figures.flatMap(({ records, modes }) => row(nameOf(mode), records, modes[mode]?.[quantity] ?? [])),
      )
    const plain = figures.flatMap(({ records, plain }) => row('a record without privacy', records, plain))
    const title = `A first visit, ${kind}`
    const x = 'records (N), values of 32 bytes'
    return [
      compared(
        ...([`visit-${kind}-time.svg`, title, 'time to the first record', 'seconds'] as const),
        ...([[...of('seconds'), ...plain], [], x] as const),
      ),
      compared(
        ...([`visit-${kind}-bytes.svg`, title, 'bytes moved by then', 'bytes'] as const),
        ...([of('bytes'), [], x] as const),
      ),
    ]
  }).filter(({ plot }) => plot.rows.length > 0)
}

/** SinglePass, Table 2, as a Markdown table; undefined if N = 3 000 000 was not measured. */
export function table2(all: readonly SizeFigures[]): string | undefined {
  const size = all.find(({ records }) => records === TABLE_2_RECORDS)
  if (size === undefined) return undefined
  const columns = LAYOUTS.flatMap(layout => PROOFS.map(proofs => ({ layout: size.layouts[layout], proofs })))
  const cells = (unit: Unit, read: (column: (typeof columns)[number]) => readonly number[]) =>
    columns.map(column => (read(column).length === 0 ? '' : format(median(read(column)), unit)))
  const quantity = (unit: Unit, quantity: Quantity) =>
    cells(unit, ({ layout, proofs }) => layout.proofs[proofs][quantity])
  const { SinglePass, Checklist } = TABLE_2
  const theirs = (unit: Unit, name: keyof typeof SinglePass) =>
    [SinglePass, Checklist].map(of => format(of[name], unit))
  const lines = [
    ['', 'SinglePass', 'Checklist', ...columns.map(({ layout, proofs }) => `${proofs}, Q = ${layout.partitions}`)],
    ['preprocessing', ...theirs('seconds', 'preprocessingSeconds'), ...quantity('seconds', 'offlineComputing')],
    ['– whole, in Chromium', '', '', ...quantity('seconds', 'offlineChromium')],
    ['query', ...theirs('seconds', 'lookupSeconds'), ...quantity('seconds', 'lookupComputing')],
    ['– whole, in Chromium', '', '', ...quantity('seconds', 'lookupChromium')],
    ['– bytes', ...theirs('bytes', 'lookupBytes'), ...quantity('bytes', 'lookupBytes')],
    ['client size', ...theirs('bytes', 'clientBytes'), ...quantity('bytes', 'state')],
    [
      'batch of 500 edits, client',
      ...theirs('seconds', 'updateSeconds'),
      ...cells('seconds', ({ layout, proofs }) => layout.updates.edit.client[proofs].map(each => 500 * each)),
    ],
    [
      'batch of 500 edits, server',
      ...['', ''],
      ...cells('seconds', ({ layout }) => layout.updates.edit.server.map(each => 500 * each)),
    ],
  ]
  return aligned(lines)
}
