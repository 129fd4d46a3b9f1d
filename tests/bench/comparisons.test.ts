// The papers' tables: every table and plot of the document is made of what was measured, whatever that is.

import { expect, test } from 'vitest'
import { fig9, firstVisits, table1, table2 } from './comparisons.js'
import { markdown } from './document.js'
import { readOptions } from './options.js'
import { plot } from './plot.js'
import { type LayoutFigures, QUANTITIES, type SizeFigures } from './sweep.js'
import { type VisitFigures, visitSections } from './visits.js'
import { documentOf } from './write.js'

const both = <T>(value: T) => ({ merkle: value, tags: value })

function layout(partitions: number, memory: readonly number[]): LayoutFigures {
  const quantities = Object.fromEntries(
    QUANTITIES.map(name => [name, name === 'tabMemory' ? memory : [0.003, 0.001, 0.002]]),
  ) as LayoutFigures['proofs']['tags']
  const update = { server: [2e-6], client: both([1e-6]), bytes: [42] }
  return {
    ...{ partitions, digests: [0.2], serverMemory: memory, proofs: both(quantities) },
    updates: { edit: update, add: update, both: update },
  }
}

function size(records: number, memory: readonly number[] = [1e8]): SizeFigures {
  const layouts = { planned: layout(16, memory), root: layout(1024, memory) }
  return { records, layouts, plain: { record: [0.001], everything: [0.1] } }
}

test('every comparison can be plotted and written, with the papers beside', () => {
  const sizes = [size(2 ** 20), size(3_000_000), size(2 ** 24)]
  const comparisons = [...table1(sizes), ...fig9(sizes)]
  expect(comparisons.length).toBe(12 + 6)
  expect(new Set(comparisons.map(({ file }) => file)).size).toBe(comparisons.length)
  for (const comparison of comparisons) {
    expect(plot(comparison.plot)).toContain('</svg>')
    expect(markdown(comparison)).toContain(`](plots/${comparison.file})`)
  }
  const computing = comparisons.find(({ file }) => file === 'bench/lookup-computing.svg')!
  expect(markdown(computing)).toMatch(/2²⁰ .* 2 ms \(1 ms – 3 ms\) .* 2\.63 s/)
})

test('N = 3 000 000 stands in the table of SinglePass alone', () => {
  const sizes = [size(2 ** 20), size(3_000_000)]
  expect(table1(sizes).flatMap(({ plot }) => plot.rows.map(({ x }) => x))).not.toContain(3_000_000)
  expect(table2(sizes)).toMatch(/\| batch of 500 edits, client +\| +190 µs \| +3\.78 ms \| +500 µs \|/)
  expect(table2([size(2 ** 20)])).toBeUndefined()
})

function visit(kind: VisitFigures['kind'], records: number): VisitFigures {
  const modes = {
    instant: { seconds: [0.3, 0.2, 0.25], bytes: [9000] },
    full: { seconds: [], bytes: [] }, // would have taken too long
    local: { seconds: [20], bytes: [5e7] },
  }
  return { kind, records, modes, plain: [0.05] }
}

test('first visits are told of every mode that was measured, and judged where they are keyed and instant', () => {
  const figures = [visit('keyed', 2 ** 16), visit('keyed', 2 ** 22), visit('keyless', 2 ** 22)]
  const comparisons = firstVisits(figures)
  expect(comparisons.map(({ file }) => file)).toEqual(
    ['keyed-time', 'keyed-bytes', 'keyless-time', 'keyless-bytes'].map(name => `bench/visit-${name}.svg`),
  )
  for (const { plot: shown } of comparisons) expect(plot(shown)).toContain('</svg>')
  const [times, moved] = comparisons.map(markdown)
  expect(times).toMatch(/\| +instant \| +local \(keep it all\) \| +a record without privacy \|/)
  expect(times).toMatch(/2²² +\| +250 ms \(200 ms – 300 ms\) \| +20 s \| +50 ms \|/)
  expect(moved).toMatch(/2²² +\| +9 kB \| +50 MB \|/)

  const [section] = visitSections(figures)
  const judged = section!.figures.filter(({ target }) => target !== undefined)
  expect(judged.map(({ name, target }) => [name, target])).toEqual([
    ['instant, keyed, N = 65536: first record', ['≤', 0.5]],
    ['instant, keyed, N = 65536: moved', ['≤', 30]],
    ['instant, keyed, N = 4194304: first record', ['≤', 0.5]],
    ['instant, keyed, N = 4194304: moved', ['≤', 30]],
  ])
  expect(visitSections([])).toEqual([])
})

test('what a system does not tell is left out, not made up', () => {
  const files = table1([size(2 ** 20, [])]).map(({ file }) => file)
  expect(files).not.toContain('bench/tab-memory.svg')
  expect(files).not.toContain('bench/server-memory.svg')
})

test('the document names the command that made it, and the figures', () => {
  const options = readOptions(['--write', '--repeats', '3'])
  const sections = [{ title: 'Lookups', figures: [{ name: 'A lookup', unit: 'ms', samples: [1.5] }] }]
  const visited = [visit('keyed', 2 ** 20)]
  const document = documentOf({ options, sections, sizes: [size(2 ** 20)], browser: 'Chrome/1', visited })
  expect(document).toContain('`npm run bench -- --write --repeats 3`')
  expect(document).toMatch(/\| A lookup \| +\| 1\.5 ms/)
  expect(document).toContain('](plots/bench/lookup-chromium.svg)')
  expect(document).toContain('](plots/bench/visit-keyed-bytes.svg)')
  expect(documentOf({ options, sections, visited: [], sizes: [], browser: '' })).not.toContain('First visits')
})
