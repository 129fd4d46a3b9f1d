// What each command can be told stays little, and all of it is on the operator's page.

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { runKeyhush } from './command.js'

/** How many flags each command may have. One that comes has to be missed by those who run it, or another goes. */
const MOST_FLAGS: Readonly<Record<string, number>> = {
  build: 17,
  serve: 14,
  dev: 11,
  plan: 14,
  export: 4,
  publish: 11,
  keygen: 1,
  'ceremony init': 2,
  'ceremony contribute': 2,
  'ceremony verify': 1,
}

/** Names in the first column of a help's section. */
const namesIn = (help: string, pattern: RegExp) =>
  [...help.matchAll(pattern)].map(([, name]) => name!).filter(name => !['help', '--help', '--version'].includes(name))

const helpOf = (command: string) => runKeyhush(...command.split(' '), '--help')
const flagsOf = async (command: string) => namesIn(await helpOf(command), /^ {2}(?:-\w, )?(--[a-z-]+)/gm)

/** The commands there are, by their own help. */
async function commandsIn(help: string): Promise<string[]> {
  const [, list = ''] = help.split('\nCommands:\n')
  return namesIn(list, /^ {2}([a-z]+) /gm)
}

const commands: string[] = []
for (const name of await commandsIn(await runKeyhush('--help'))) {
  const inner = await commandsIn(await helpOf(name))
  commands.push(...(inner.length === 0 ? [name] : inner.map(each => `${name} ${each}`)))
}

test('every command is known here', () => {
  expect(commands.sort(), 'add each new command and its number of flags to MOST_FLAGS').toEqual(
    Object.keys(MOST_FLAGS).sort(),
  )
})

test.each(commands)('%s has few flags, and each has its row in docs/operations.md', async command => {
  const page = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  const rows = page.split('\n').filter(line => line.startsWith('| `--'))
  const flags = await flagsOf(command)
  expect(flags.length).toBeGreaterThan(0)
  expect(flags.length).toBeLessThanOrEqual(MOST_FLAGS[command] ?? 0)
  const missing = flags.filter(flag => !rows.some(row => row.split('|')[1]!.includes(flag)))
  expect(missing, 'add a row to the table of the command in docs/operations.md').toEqual([])
})

test('help shows the ports of dev as they are typed', async () => {
  expect((await runKeyhush('dev', '--help')).replace(/\s+/g, ' ')).toContain(
    '--ports <a,b> ports to listen on, one a server (default: any free ones)',
  )
})
