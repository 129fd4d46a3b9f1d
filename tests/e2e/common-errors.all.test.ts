// docs/common-errors.md and the code have the same errors: the page has every class, code and reason, and quotes messages as
// they are.

import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import * as client from '@keyhush/client'
import { ERROR_CODES } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { runKeyhushProcess } from '../support/processes.js'
import { temporaryFolder } from '../support/servers.js'

const root = join(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/common-errors.md'), 'utf8')
const [, forClients, atServers, replies, whenPublishing] =
  /^## Client$(.*)^## Server$(.*)^### Replies of the server$(.*)^## Publisher$(.*)/ms.exec(page)!
const forOperators = atServers! + whenPublishing!
const headings = (text: string) => [...text.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading!)

/** (A TimeoutError has a list of servers.) */
const PARTS = [['https://a.example'], 'what came']
const classes = Object.entries(client)
  .filter(([name]) => /(?<!^Keyhush|^Server)Error$/.test(name))
  .map(([name, Class]) => [name, Class as unknown as new (...parameters: unknown[]) => client.KeyhushError] as const)

test('the page has one section for every class of error, with its code', () => {
  const sections = headings(forClients!).flatMap(heading => {
    const [, name, code] = /^`(\w+Error)`(?: \(`(\w+)`\))?$/.exec(heading) ?? []
    return name === undefined ? [] : [`${name} ${code}`]
  })
  const made = classes.map(([name, Class]) => {
    const { code } = new Class(...PARTS)
    return `${name} ${code}`
  })
  expect(sections.sort()).toEqual([...made, 'AbortError undefined'].sort()) // the platform's
})

test('the page has one row for every code, which says whether calling again helps', () => {
  const rows = [...forClients!.matchAll(/^\| `(\w+)` \| (yes|no)\b/gm)].map(
    ([, code, retryable]) => `${code} ${retryable}`,
  )
  const made = classes.map(([, Class]) => {
    const { code, retryable } = new Class(...PARTS)
    return `${code} ${retryable ? 'yes' : 'no'}`
  })
  expect(rows.sort()).toEqual(made.sort())
})

test('the page has one row for every reason of UnsupportedError', () => {
  const source = readFileSync(join(root, 'packages/client/src/base/errors.ts'), 'utf8')
  const [, union] = /export type UnsupportedReason =\n((?: +\| '\w+'\n)+)/.exec(source)!
  const reasons = [...union!.matchAll(/'(\w+)'/g)].map(([, reason]) => reason)
  const [, section] = /^### `UnsupportedError`(.*?)^###/ms.exec(forClients!)!
  const rows = [...section!.matchAll(/^\| `(\w+)` \|/gm)].map(([, reason]) => reason).filter(row => row !== 'reason')
  expect(rows).toEqual(reasons)
})

test('the page has one row for every code of a server, with its status', () => {
  const rows = [...replies!.matchAll(/^\| (\d+) `(\w+)`/gm)].map(([, status, code]) => `${code} ${status}`)
  expect(rows.sort()).toEqual(
    Object.entries(ERROR_CODES)
      .map(([code, status]) => `${code} ${status}`)
      .sort(),
  )
})

test('every message that the page quotes for apps is in the sources', () => {
  const said = sourcesIn('packages/client/src', 'packages/confidential/src', 'packages/pointproofs/src')
  const quoted = [...forClients!.matchAll(/"([^"\n]{12,})"/g)].map(([, text]) => text!)
  expect(quoted.length).toBeGreaterThan(7)
  expect(quoted.filter(text => !said.includes(longestPiece(text.split('…'))))).toEqual([])
})

/** What the sources in `folders` can say: strings over several lines are joined, and quotes unescaped. */
function sourcesIn(...folders: string[]): string {
  return folders
    .flatMap(folder =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter(name => /\.(ts|rs)$/.test(name))
        .map(name => readFileSync(join(root, folder, name), 'utf8')),
    )
    .join('\n')
    .replaceAll(/['"`] \+\n\s*['"`]|\\\n\s*/g, '')
    .replaceAll("\\'", "'")
}

/** The longest of the pieces between a message's variable parts. */
function longestPiece(pieces: readonly string[]): string {
  return pieces.map(piece => piece.replace(/^[:,\s]+|\s+$/g, '')).sort((a, b) => b.length - a.length)[0]!
}

/** Messages of the platform, which are checked below. */
const PLATFORM = /\((EADDRINUSE|EMFILE|ENOENT)\)$/

test('every quoted message of an operator’s error is in the sources', () => {
  const said = sourcesIn(
    'server/src',
    'rust-core/core/src',
    'packages/confidential/src',
    'packages/pointproofs/src',
    'packages/pointproofs/rust/pointproofs/src',
    'rust-core/wasm/src',
    'packages/protocol/src',
  )
  const quoted = headings(forOperators).flatMap(heading => [...heading.matchAll(/`([^`]+)`/g)].map(([, text]) => text!))
  const missing = quoted.filter(text => {
    // Leaves out file, line and other variable parts, and looks for the longest piece between them.
    const pieces = text
      .replace(/^(\S+:\d+:|\S+\/\S+:) /, '')
      .split(/…|\d+|`|\bkey and value\b|dataset:|transcript:|--\S+/)
    return !PLATFORM.test(text) && !said.includes(longestPiece(pieces))
  })
  expect(quoted.length).toBeGreaterThan(20)
  expect(missing).toEqual([])
})

test('the platform’s messages for a busy port and a missing file are as quoted', async () => {
  const folder = await temporaryFolder()
  const other = createServer()
  await once(other.listen(0, '127.0.0.1'), 'listening')
  const { port } = other.address() as AddressInfo
  const data = join(folder.path, 'list.txt')
  await writeFile(data, 'otter\n')
  const dataset = join(folder.path, 'dataset')
  await runKeyhushProcess('build', data, '--out', dataset)
  const serve = ['serve', '--dataset', dataset, '--port', `${port}`, '--log-level', 'silent']
  const heading = (code: string) =>
    headings(forOperators)
      .find(text => text.endsWith(`(${code})\``))!
      .replaceAll('`', '')
  await expect(runKeyhushProcess(...serve)).rejects.toThrow(heading('EADDRINUSE').replace('8080', `${port}`))
  const key = join(folder.path, 'publisher.key')
  await expect(
    runKeyhushProcess('publish', '--servers', 'https://a.example,https://b.example', '--key', key),
  ).rejects.toThrow(heading('ENOENT').replace('publisher.key', key))
  other.close()
  await folder.remove()
})
