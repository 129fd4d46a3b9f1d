// The papers' tables, ours beside theirs: TAPIR, Table 1 and Fig. 9; SinglePass, Table 2.

import type { EntryProofs } from '@keyhush/protocol'
import { CHANGES, PROOFS } from './compute.js'
import { aligned, heading, table } from './document.js'
import type { Options } from './options.js'
import { FIG_9, type Figure, published, TABLE_2 } from './papers.js'
import { format, power, type Row, type Unit } from './plot.js'
import { median, quantile, type Section } from './report.js'
import {
  LAYOUTS,
  type LayoutFigures,
  type LayoutKind,
  type Quantity,
  type SizeFigures,
  sweep,
  TABLE_2_RECORDS,
  type UpdateFigures,
} from './sweep.js'

const PLACE: Record<LayoutKind, string> = { planned: '', root: ', Q = √N' }

export async function papers(options: Options): Promise<Section[]> {
  const all = await sweep(options)
  const sizes = all.filter(({ records }) => records !== TABLE_2_RECORDS)
  return [...largestTab(sizes), ...table1(sizes), ...fig9(sizes), ...table2(all)]
}

/** N = 2^24 works in Chromium, end to end, within 1.5 GiB: with the proofs that `open()` chooses there by itself. */
function largestTab(sizes: readonly SizeFigures[]): Section[] {
  const largest = sizes.find(({ records }) => records === 2 ** 24)
  if (largest === undefined) return []
  const { records, layouts } = largest
  const figures = PROOFS.map(proofs => ({
    name: `memory of a tab, durable, ${power(records)}`,
    column: `${proofs}${proofs === 'merkle' ? ', as open() chooses' : ''}`,
    unit: 'GiB',
    target: proofs === 'merkle' ? (['≤', 1.5] as const) : undefined,
    samples: layouts.planned.proofs[proofs].tabMemory.map(bytes => bytes / 2 ** 30),
  }))
  return [{ title: 'A large database', figures }]
}

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

/** Unless nothing was measured. */
function compared(title: string, y: string, unit: Unit, rows: readonly Row[], theirs: readonly Row[] = []): Section[] {
  const compared = { title, y, unit, rows: [...rows, ...theirs] }
  return rows.length === 0 ? [] : [{ title: heading(compared), figures: [], table: table(compared) }]
}

/** TAPIR, Table 1. */
function table1(sizes: readonly SizeFigures[]): Section[] {
  const theirs = (figure: Figure, ...schemes: string[]) => published(figure, schemes)
  const of = (quantity: Quantity) => ours(sizes, quantity)
  const plain = (series: string, read: (size: SizeFigures) => readonly number[]) =>
    sizes.flatMap(size => row(series, size.records, read(size)))
  return [
    ...compared(
      ...(['Digests', 'time of one server, once', 'seconds'] as const),
      perLayout(sizes, ({ digests }) => digests),
      theirs('serverSeconds', 'TAPIR-MT', 'APIR-Matrix-MT'),
    ),
    ...compared(
      ...(['Computing the offline phase', 'time of a client', 'seconds'] as const),
      of('offlineComputing'),
      theirs('clientSeconds', 'TAPIR-MT', 'SinglePass'),
    ),
    ...compared('The whole offline phase in Chromium', 'time, durable state', 'seconds', [
      ...of('offlineChromium'),
      ...plain('downloading everything', ({ plain }) => plain.everything),
    ]),
    ...compared(
      ...(['Computing a lookup', 'time of a client and both servers', 'seconds'] as const),
      of('lookupComputing'),
      theirs('lookupSeconds', 'TAPIR-MT', 'TAPIR-PP', 'APIR-DPF'),
    ),
    ...compared('A whole lookup in Chromium', 'time, durable state', 'seconds', [
      ...of('lookupChromium'),
      ...plain('a record without privacy', ({ plain }) => plain.record),
    ]),
    ...compared("A tab's process in Chromium", 'most memory, durable state', 'bytes', of('tabMemory')),
    ...compared(
      ...(['A server process', 'most memory, proofs and tags both offered', 'bytes'] as const),
      perLayout(sizes, ({ serverMemory }) => serverMemory),
    ),
  ]
}

/** TAPIR, Fig. 9. */
function fig9(sizes: readonly SizeFigures[]): Section[] {
  return LAYOUTS.flatMap(layout => {
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
      ...compared(
        ...([title, 'time of one server', 'seconds'] as const),
        changes(({ server }) => server),
      ),
      ...compared(
        ...([title, 'time of a client', 'seconds'] as const),
        perProofs(({ client }, proofs) => client[proofs]),
        FIG_9,
      ),
    ]
  })
}

/** SinglePass, Table 2, if N = 3 000 000 was measured. */
function table2(all: readonly SizeFigures[]): Section[] {
  const size = all.find(({ records }) => records === TABLE_2_RECORDS)
  if (size === undefined) return []
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
  return [{ title: 'SinglePass, Table 2', figures: [], table: aligned(lines) }]
}
