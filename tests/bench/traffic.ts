// The traffic of TAPIR, Table 1, beside ours, against N: at the planned Q and at the papers' Q = √N, with each kind
// of proof. Computed, because costs computed equal costs measured (tests/costs); the bench measures times.
//
//   node tests/run.mjs traffic     prints what docs/costs.md has of it, and writes its plots

import { mkdir } from 'node:fs/promises'
import { type ClientCore, type Costs, loadCore } from '@pirouette/wasm'
import { type Comparison, markdown, writePlot } from './document.js'
import { published } from './papers.js'
import type { Plot, Row } from './plot.js'

const EXPONENTS = [16, 18, 20, 22, 24]
const VALUE_BYTES = 32
const PUBLISHED = ['TAPIR-MT', 'TAPIR-PP', 'SinglePass']
const x = 'records (N) of 32 bytes'

export function comparisons(core: ClientCore): readonly Comparison[] {
  const ours = (read: (costs: Costs) => number): Row[] =>
    EXPONENTS.flatMap(exponent => {
      const records = 2 ** exponent
      const planned = core.plan({ records, valueBytes: VALUE_BYTES })
      const square = core.plan({ records, valueBytes: VALUE_BYTES, partitions: 2 ** (exponent / 2) })
      return [
        { series: 'merkle', x: records, median: read(planned.merkle) },
        { series: 'tags', x: records, median: read(planned.tags) },
        { series: 'merkle, Q = √N', x: records, median: read(square.merkle) },
        { series: 'tags, Q = √N', x: records, median: read(square.tags) },
      ]
    })
  const lookup: Plot = {
    title: 'A lookup',
    y: 'bytes to and from both servers',
    unit: 'bytes',
    x,
    rows: [...ours(costs => costs.lookupBytesUp + costs.lookupBytesDown), ...published('lookupBytes', PUBLISHED)],
    dashed: PUBLISHED,
  }
  const memory: Plot = {
    title: 'What a client holds',
    y: 'bytes of hint, permutations and tags',
    unit: 'bytes',
    x,
    rows: ours(costs => costs.memoryBytes),
  }
  const offline: Plot = {
    title: 'The offline phase',
    y: 'bytes from both servers, once',
    unit: 'bytes',
    x,
    rows: [
      // The same with either kind of proof.
      ...ours(costs => costs.offlineBytes)
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
