// The traffic of TAPIR, Table 1, beside ours, against N: at the planned Q and at the papers' Q = √N, with each kind
// of proof. Computed, because costs computed equal costs measured (tests/costs); the bench measures times.
//
//   node tests/run.mjs traffic     prints what docs/costs.md has of it, and writes its plots

import { mkdir } from 'node:fs/promises'
import { type Core, type Costs, loadCore, type ModeCosts, type Plan } from '@keyhush/wasm'
import { type Comparison, markdown, writePlot } from './document.js'
import { published } from './papers.js'
import type { Plot, Row } from './plot.js'

const EXPONENTS = [16, 18, 20, 22, 24]
const VALUE_BYTES = 32
const PUBLISHED = ['TAPIR-MT', 'TAPIR-PP', 'SinglePass']
const x = 'records (N) of 32 bytes'

const lookupBytes = ({ lookupBytesUp, lookupBytesDown }: Costs | ModeCosts) => lookupBytesUp + lookupBytesDown

export function comparisons(core: Core): readonly Comparison[] {
  /** In mode `full`, of the layout of a plan. */
  const proved = ({ layout: planned }: Plan): ModeCosts => {
    const { records, recordBytes, partitions, partitionRecords, blockRecords } = planned
    const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
    const all = core.modeCosts(layout, { directoryBytes: 0 }, ['pointproofs'], {})
    layout.free()
    return all.find(({ mode, proofs }) => mode === 'full' && proofs === 'pointproofs')!
  }
  const ours = (read: (costs: Costs) => number, readProved: (costs: ModeCosts) => number): Row[] =>
    EXPONENTS.flatMap(exponent => {
      const records = 2 ** exponent
      const planned = core.plan({ records, valueBytes: VALUE_BYTES })
      const square = core.plan({ records, valueBytes: VALUE_BYTES, partitions: 2 ** (exponent / 2) })
      return [
        { series: 'merkle', x: records, median: read(planned.merkle) },
        { series: 'tags', x: records, median: read(planned.tags) },
        { series: 'Pointproofs', x: records, median: readProved(proved(planned)) },
        { series: 'merkle, Q = √N', x: records, median: read(square.merkle) },
        { series: 'tags, Q = √N', x: records, median: read(square.tags) },
        { series: 'Pointproofs, Q = √N', x: records, median: readProved(proved(square)) },
      ]
    })
  const lookup: Plot = {
    title: 'A lookup',
    y: 'bytes to and from both servers',
    unit: 'bytes',
    x,
    rows: [
      // At Q = √N too they are 96 bytes more than with tags.
      ...ours(lookupBytes, lookupBytes).filter(({ series }) => series !== 'Pointproofs, Q = √N'),
      ...published('lookupBytes', PUBLISHED),
    ],
    dashed: PUBLISHED,
  }
  const memory: Plot = {
    title: 'What a client holds',
    y: 'bytes of hint, permutations, and what verifies',
    unit: 'bytes',
    x,
    rows: ours(
      costs => costs.memoryBytes,
      ({ held }) => Object.values(held).reduce((sum, bytes) => sum + bytes, 0),
    ),
  }
  const offline: Plot = {
    title: 'The offline phase',
    y: 'bytes from both servers, once',
    unit: 'bytes',
    x,
    rows: [
      // The same with either kind of proof.
      ...ours(
        costs => costs.offlineBytes,
        () => 0,
      )
        .filter(({ series }) => series.startsWith('merkle'))
        .map(row => ({ ...row, series: row.series === 'merkle' ? 'planned Q' : 'Q = √N' })),
      ...published('offlineBytes', PUBLISHED),
    ],
    dashed: PUBLISHED,
  }
  return [
    { file: 'lookup-bytes.svg', plot: lookup },
    { file: 'client-memory.svg', plot: memory },
    { file: 'offline-bytes.svg', plot: offline },
  ]
}

/** Prints the tables and writes the plots; returns the exit code. */
export async function traffic(): Promise<number> {
  const folder = new URL('../../docs/plots/', import.meta.url)
  await mkdir(folder, { recursive: true })
  for (const comparison of comparisons(await loadCore())) {
    await writePlot(folder, comparison)
    console.log(markdown(comparison))
  }
  return 0
}
