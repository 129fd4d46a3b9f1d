// The tables and plots of docs/costs.md are what the commands named there print.

import { readFile } from 'node:fs/promises'
import { loadCore } from '@keyhush/wasm'
import { expect, test } from 'vitest'
import { bytes } from '../../server/dist/commands/plan.js'
import { runKeyhush } from '../../server/test/command.js'
import { KINDS, shardTable } from '../bench/capacity.js'
import { aligned, between, markdown } from '../bench/document.js'
import { plot } from '../bench/plot.js'
import { comparisons } from '../bench/traffic.js'

const read = (path: string) => readFile(new URL(`../../docs/${path}`, import.meta.url), 'utf8')

test('docs/costs.md has what its commands print', async () => {
  const document = await read('costs.md')
  const commands = [...document.matchAll(/^keyhush (plan .*)\n```\n\n```text$/gm)].map(([, command]) => command!)
  expect(commands.length).toBeGreaterThan(0)
  for (const command of commands) expect(document).toContain(await runKeyhush(...command.split(' ')))
})

test.each([
  ['g', 2 ** 20, [1, 2, 8]],
  ['Q', 2 ** 20, [16, 32, 64, 256, 1024]],
  ['Q', 2 ** 16, [1, 4, 8, 16, 32, 256]],
])('the table by %s of %i records is what the core computes', async (by, records, values) => {
  const core = await loadCore()
  const workload = { records, valueBytes: 32 }
  const { partitions, blockRecords } = core.plan(workload).layout
  const planned = by === 'Q' ? partitions : blockRecords
  const rows = values.map(value => {
    const { merkle, tags } = core.plan({ ...workload, [by === 'Q' ? 'partitions' : 'pack']: value })
    return [
      `${value}${value === planned ? ' (planned)' : ''}`,
      ...[merkle, tags].map(({ memoryBytes }) => bytes(memoryBytes)),
      ...[merkle, tags].map(costs => bytes(lookupBytes(costs))),
      by === 'Q' ? `${merkle.lookupHashes}` : bytes(merkle.serverBytes),
    ]
  })
  const last = by === 'Q' ? 'BLAKE3' : 'server, merkle'
  const head = [by, 'client, merkle', 'client, tags', 'lookup, merkle', 'lookup, tags', last]
  expect(await read('costs.md')).toContain(aligned([head, ...rows]))
})

/** A figure as documents write it: one decimal, or none if that is 0. */
const figure = (bytes: number, unit: 'kB' | 'KiB' | 'MiB') =>
  (bytes / { kB: 1000, KiB: 2 ** 10, MiB: 2 ** 20 }[unit]).toFixed(1).replace(/\.0$/, '')
/** Cells of the row whose first cell begins with this code. */
const rowOf = (document: string, name: string) =>
  new RegExp(`^\\| \`${name}\`[^|]*\\|(.*)\\|$`, 'm')
    .exec(document)![1]!
    .split('|')
    .map(cell => cell.trim())
const lookupBytes = (row: { readonly lookupBytesUp: number; readonly lookupBytesDown: number }) =>
  row.lookupBytesUp + row.lookupBytesDown

test('the table of lookups by key in the guide says what the core computes, in the mode and with the proofs that it names', async () => {
  const guide = (await read('guide/modes.md')).split('By key, with values of')[1]!
  const core = await loadCore()
  const plans = [32, 256].map(valueBytes => core.plan({ records: 2 ** 20, valueBytes, lookupsPerDay: 20, keyed: true }))
  const costs = (mode: string, proofs?: string) =>
    plans.map(({ modes }) => modes.find(row => row.mode === mode && (proofs === undefined || row.proofs === proofs))!)
  type Row = ReturnType<typeof costs>[number]
  const pair = (rows: readonly Row[], unit: 'KiB' | 'MiB', bytes: (row: Row) => number) =>
    `${rows.map(row => figure(bytes(row), unit)).join(' / ')} ${unit}`
  const first = (row: Row) => row.firstBytes
  const memory = (row: Row) => row.memoryBytes
  const expected: Record<string, string[][]> = {
    local: [[pair(costs('local'), 'MiB', first)], ['nothing'], [pair(costs('local'), 'MiB', memory)]],
    instant: [[pair(costs('instant'), 'KiB', first)], [pair(costs('instant'), 'KiB', lookupBytes)], ['nothing']],
    single: [
      [pair(costs('single'), 'MiB', first)],
      [pair(costs('single'), 'KiB', lookupBytes)],
      [pair(costs('single'), 'MiB', memory)],
    ],
    full: [
      [pair(costs('full', 'tags'), 'MiB', first)],
      ['tags', 'merkle'].map(proofs => pair(costs('full', proofs), 'KiB', lookupBytes)),
      ['tags', 'merkle'].map(proofs => pair(costs('full', proofs), 'MiB', memory)),
    ],
  }
  for (const [mode, columns] of Object.entries(expected)) {
    const cells = rowOf(guide, mode)
    for (const [i, texts] of columns.entries()) for (const text of texts) expect(cells[i], mode).toContain(text)
  }
})

test('the guide has the figures that the core computes: modes, proofs, three and five servers', async () => {
  const [modes, trust] = [await read('guide/modes.md'), await read('guide/trust.md')]
  const core = await loadCore()
  const plan = (use: { readonly keyed?: boolean; readonly servers?: number } = {}) =>
    core.plan({ records: 2 ** 20, valueBytes: 32, lookupsPerDay: 20, ...use }).modes
  const cost = (mode: string, proofs?: string) =>
    plan().find(row => row.mode === mode && (proofs === undefined || row.proofs === proofs))!
  const instant = (use: Parameters<typeof plan>[0]) => lookupBytes(plan(use).find(({ mode }) => mode === 'instant')!)
  const expected: Record<string, string[]> = {
    instant: [
      `${figure(cost('instant').firstBytes, 'KiB')} KiB`,
      `${figure(instant({}), 'KiB')} KiB (by key ${figure(instant({ keyed: true }), 'KiB')} KiB)`,
      'nothing',
    ],
    local: [
      `${figure(cost('local').firstBytes, 'MiB')} MiB`,
      'nothing',
      `${figure(cost('local').memoryBytes, 'MiB')} MiB`,
    ],
  }
  for (const mode of ['full', 'single']) {
    const { firstBytes, memoryBytes, ...row } = cost(mode, mode === 'full' ? 'tags' : undefined)
    expected[mode] = [
      `${figure(firstBytes, 'MiB')} MiB`,
      `${figure(lookupBytes(row), 'KiB')} KiB`,
      `${figure(memoryBytes, 'MiB')} MiB`,
    ]
  }
  for (const [mode, cells] of Object.entries(expected)) {
    const found = rowOf(modes, mode)
    for (const [i, text] of cells.entries())
      expect(found[i]!.startsWith(text), `${mode}: ${text}, not ${found[i]}`).toBe(true)
  }
  for (const proofs of ['tags', 'merkle']) {
    expect(rowOf(modes, proofs)[1]).toBe(`${figure(lookupBytes(cost('full', proofs)), 'KiB')} KiB`)
  }
  for (const servers of [2, 3, 5]) {
    const sizes = [{ servers }, { servers, keyed: true }].map(use => `${figure(instant(use), 'kB')} kB`)
    expect(trust).toContain(`| ${servers} | ${sizes.join(' | ')} |`)
  }
})

test('the tables of docs/operations/capacity.md are what their commands print', async () => {
  const document = await read('operations/capacity.md')
  expect(between(document, 'shards').trim()).toBe(shardTable(await loadCore()))
  const rows = (name: string) =>
    between(document, name)
      .split('\n')
      .filter(line => line.startsWith('|'))
      .map(line =>
        line
          .split('|')
          .slice(1, -1)
          .map(cell => cell.trim()),
      )
  const capacity = rows('capacity')
  for (const kind of Object.keys(KINDS)) {
    const cells = capacity.find(([what]) => what!.startsWith(`lookups a second: ${kind}`))
    expect(
      cells?.slice(1).some(cell => /^[\d.,]+ \([\d.]+ ms\)$/.test(cell)),
      kind,
    ).toBe(true)
  }
  // Processors follow from the table above.
  const time = Number(
    /\(([\d.]+) ms\)/.exec(capacity.find(([what]) => what === 'lookups a second: hints, merkle')![2]!)![1],
  )
  const needed = Number(capacity.find(([what]) => what === 'hints, merkle')![1])
  expect(Math.abs(needed - Math.ceil(((4 * 20 * time) / 86_400 / 0.5) * 1e3))).toBeLessThanOrEqual(1)
  const fence = rows('fence').map(([what]) => what)
  for (const phase of ['confirmations, one at a time', 'registrations, 64 at a time', 'the day after'])
    expect(fence).toContain(phase)
})

test('the comparisons with the papers are what tests/bench/traffic.ts computes', async () => {
  const document = await read('costs.md')
  const all = comparisons(await loadCore())
  expect(all.length).toBe(document.split('](plots/').length - 1)
  for (const comparison of all) {
    expect(document).toContain(markdown(comparison))
    expect(await read(`plots/${comparison.file}`)).toBe(plot(comparison.plot))
  }
})
