// The tables in docs/costs.md are what the command above each prints.

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { runPirouette } from '../support/processes.js'

test('the tables of docs/costs.md are what their commands print', async () => {
  const document = await readFile(new URL('../../docs/costs.md', import.meta.url), 'utf8')
  const commands = [...document.matchAll(/^pirouette (plan .* --partitions .*)$/gm)].map(([, command]) => command!)
  expect(commands.length).toBeGreaterThan(0)
  for (const command of commands) expect(document).toContain(await runPirouette(...command.split(' ')))
})
