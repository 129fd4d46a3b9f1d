// What `serve` can be told stays little, and all of it is on the operator's page.

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { runKeyhush } from './command.js'

/** An option that comes has to be missed by those who run servers, or another goes. */
const MOST_FLAGS = 14

async function flagsOf(command: string): Promise<string[]> {
  const help = await runKeyhush(command, '--help')
  return [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag!).filter(flag => flag !== '--help')
}

test('serve has few flags', async () => {
  expect((await flagsOf('serve')).length).toBeLessThanOrEqual(MOST_FLAGS)
})

test.each(['serve', 'build', 'publish'])('each flag of %s has its row in docs/operations.md', async command => {
  const page = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8')
  const rows = page.split('\n').filter(line => line.startsWith('| `--'))
  const flags = await flagsOf(command)
  expect(flags.length).toBeGreaterThan(5)
  expect(flags.filter(flag => !rows.some(row => row.split('|')[1]!.includes(flag)))).toEqual([])
})

test('help shows the ports of dev as they are typed', async () => {
  expect((await runKeyhush('dev', '--help')).replace(/\s+/g, ' ')).toContain(
    '--ports <a,b> ports to listen on; 0: any free one (default: 0,0)',
  )
})
