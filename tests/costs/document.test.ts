// The tables and plots of docs/costs.md are what the commands beside them make.

import { readFile } from 'node:fs/promises'
import { loadCore } from '@pirouette/wasm'
import { expect, test } from 'vitest'
import { runPirouette } from '../../server/test/command.js'
import { markdown } from '../bench/document.js'
import { plot } from '../bench/plot.js'
import { comparisons } from '../bench/traffic.js'

const read = (path: string) => readFile(new URL(`../../docs/${path}`, import.meta.url), 'utf8')

test('the tables of docs/costs.md are what their commands print', async () => {
  const document = await read('costs.md')
  const commands = [...document.matchAll(/^pirouette (plan .*(?: --partitions .*| --modes))$/gm)].map(
    ([, command]) => command!,
  )
  expect(commands.length).toBeGreaterThan(0)
  for (const command of commands) expect(document).toContain(await runPirouette(...command.split(' ')))
})

test('its comparisons with the papers are those of tests/bench/traffic.ts', async () => {
  const document = await read('costs.md')
  const all = comparisons(await loadCore())
  expect(all.length).toBe(document.split('](plots/').length - 1)
  for (const comparison of all) {
    expect(document).toContain(markdown(comparison))
    expect(await read(`plots/${comparison.file}`)).toBe(plot(comparison.plot))
  }
})
