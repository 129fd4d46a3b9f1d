// Each command has few flags, and the reference for operators has them as the command prints them.

import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runKeyhush } from './command.js'

/** How many flags each command may have. One that comes has to be missed by those who run it, or another goes. */
const MOST_FLAGS: Readonly<Record<string, number>> = {
  build: 21,
  split: 4,
  serve: 19,
  dev: 13,
  plan: 20,
  export: 4,
  audit: 10,
  publish: 19,
  get: 6,
  keygen: 1,
  log: 2,
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

test('no flag of a command with an argument takes several values, and with them the argument that follows', async () => {
  for (const command of commands) {
    const help = await helpOf(command)
    if (/^Usage: .* [<[](?!options)\w+(\.\.\.)?[>\]]/.test(help)) expect(help).not.toMatch(/^ {2}--[^ ]+ <\S+\.\.\.>/m)
  }
})

const PAGE = new URL('../../docs/operations/reference.md', import.meta.url)
if (process.env['KEYHUSH_WRITE_REFERENCE']) await writeHelp()
const REFERENCE = await readFile(PAGE, 'utf8')

/** Writes each command's help into its section. */
async function writeHelp(): Promise<void> {
  let page = await readFile(PAGE, 'utf8')
  for (const command of commands) {
    const help = (await helpOf(command)).trimEnd()
    page = page.replace(
      new RegExp(`(\\n## ${command}\\n[^]*?\`\`\`text\\n)[^]*?(\\n\`\`\`)`),
      (_, before, after) => before + help + after,
    )
  }
  await writeFile(PAGE, page)
}

/** What the reference has under a heading. */
function sectionOf(heading: string): string {
  const [, section] = REFERENCE.split(`\n## ${heading}\n`)
  expect(section, `add a section ${heading} to docs/operations/reference.md`).toBeDefined()
  return section!.split('\n## ')[0]!
}

test.each(commands)('%s has few flags, and docs/operations/reference.md has its help', async command => {
  const flags = await flagsOf(command)
  expect(flags.length).toBeGreaterThan(0)
  const most = MOST_FLAGS[command] ?? 0
  expect(flags.length, 'drop a flag, or raise MOST_FLAGS above').toBeLessThanOrEqual(most)
  const section = sectionOf(command)
  const [, block] = /```text\n([\s\S]*?)\n```/.exec(section) ?? []
  expect(block, 'expected what --help prints: KEYHUSH_WRITE_REFERENCE=1 npm test -- flags.test.ts writes it').toBe(
    (await helpOf(command)).trimEnd(),
  )
  const noted = [...section.replace(block!, '').matchAll(/`(--[a-z-]+)/g)].map(([, flag]) => flag!)
  expect(noted.filter(flag => !flags.includes(flag))).toEqual([])
})

test('docs/operations/reference.md has the environment variables that the commands read', async () => {
  const code = fileURLToPath(new URL('../src', import.meta.url))
  const files = (await readdir(code, { recursive: true })).filter(name => name.endsWith('.ts'))
  const texts = await Promise.all(files.map(async name => await readFile(join(code, name), 'utf8')))
  const read = texts.flatMap(text => [...text.matchAll(/process\.env(?:\['|\.)(\w+)/g)].map(([, name]) => name!))
  expect(read.length).toBeGreaterThan(3)
  const rows = sectionOf('Environment variables')
  expect([...new Set(read)].filter(name => !new RegExp(`\\b${name}\\b`).test(rows))).toEqual([])
})
