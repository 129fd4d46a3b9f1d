// docs/papers.csv and the plots that are drawn from it.

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { comparisons, parse } from './papers-plots.js'
import { plot } from './plot.js'

const docs = new URL('../../docs/', import.meta.url)

test('the plots of docs/papers.md show what docs/papers.csv has', async () => {
  const drawn = comparisons(parse(await readFile(new URL('papers.csv', docs), 'utf8')))
  const document = await readFile(new URL('papers.md', docs), 'utf8')
  for (const { file, plot: wanted } of drawn) {
    expect(document).toContain(`(plots/papers/${file})`)
    expect(await readFile(new URL(`plots/papers/${file}`, docs), 'utf8')).toBe(plot(wanted))
  }
})

test('lines are read with their units, and what has none is refused', () => {
  const head = 'table,row,column,kind,value,least,most\n'
  const figure = (line: string) => parse(head + line)[0]
  expect(figure('"S3PIR, Table 3","AES, 2^20 × 32 B","offline",seconds,5e-1,4e-1,6e-1')).toEqual({
    ...{ table: 'S3PIR, Table 3', row: 'AES, 2^20 × 32 B', column: 'offline' },
    ...{ kind: 'seconds', value: '5e-1', least: '4e-1', most: '6e-1' },
  })
  expect(() => figure('"too","few"')).toThrow('seven cells')
  expect(() => comparisons([])).toThrow('no such figures')
})

test('a figure of the papers counts in their units', async () => {
  const figures = parse(await readFile(new URL('papers.csv', docs), 'utf8'))
  const [offline] = comparisons(figures)
  const median = (series: string, exponent: number) =>
    offline!.plot.rows.find(row => row.series === series && row.x === 2 ** exponent)?.median
  expect(median('S3PIR, one server, paper', 20)).toBe(4)
  expect(median('S3PIR, one server, paper', 24)).toBe(65)
  expect(() => comparisons(figures.map(each => ({ ...each, value: '4 hours' })))).toThrow('4 hours')
})
