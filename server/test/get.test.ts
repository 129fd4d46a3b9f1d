// `keyhush get`: values on stdout, grep's exit status, and one size of request however many keys --stdin brings.

import { Readable } from 'node:stream'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startPair } from '../../tests/support/servers.js'
import { keyhush, type Outcome } from './command.js'

const ANIMALS = { otter: 'river', heron: 'shore', crow: '', ...Object.fromEntries([...'abcdefgh'].map(c => [c, c])) }

let servers: TestServers
let urls: string

beforeAll(async () => {
  servers = await startServers(ANIMALS)
  urls = servers.servers.join()
})
afterAll(() => servers.close())
afterEach(() => vi.restoreAllMocks())

const get = (...args: string[]) => keyhush('get', '--servers', urls, '--publisher-key', servers.publisherKey, ...args)

function getLines(lines: readonly string[], ...args: string[]): Promise<Outcome> {
  const input = Readable.from(lines.map(line => `${line}\n`))
  vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as typeof process.stdin)
  return get('--stdin', ...args)
}

test('prints a value a line, an empty one for what is absent or empty; JSON tells these apart', async () => {
  expect(await get('otter', 'auk', 'crow')).toEqual({ code: 0, stdout: 'river\n\n\n', stderr: '' })
  const { stdout } = await get('--json', 'otter', 'auk', 'crow')
  expect(
    stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
  ).toEqual([
    { key: 'otter', value: 'river' },
    { key: 'auk', value: null },
    { key: 'crow', value: '' },
  ])
})

test('a value that is not UTF-8 is base64 in JSON', async () => {
  const content = 'key,value\notter,00ff\n'
  const { urls, close } = await startPair({ format: 'csv', content, valueEncoding: 'hex' })
  onTestFinished(close)
  const { stdout } = await keyhush('get', '--servers', urls.join(), '--json', 'otter')
  expect(JSON.parse(stdout)).toEqual({ key: 'otter', base64: 'AP8=' })
})

test('the status is 1 if no key is there', async () => {
  expect(await get('auk')).toEqual({ code: 1, stdout: '\n', stderr: '' })
})

test('keys of --stdin are asked eight at a time, fewer padded: the servers see one size of request', async () => {
  const sizes = new Set<number>()
  const { fetch } = globalThis
  let requests = 0
  vi.spyOn(globalThis, 'fetch').mockImplementation((url, init) => {
    if (init?.method === 'POST') {
      requests++
      sizes.add((init.body as Uint8Array).length)
    }
    return fetch(url, init)
  })
  const all = [...'abcdefgh']
  expect(await getLines(all)).toMatchObject({ code: 0, stdout: all.map(line => `${line}\n`).join('') })
  const asked = { requests, sizes: new Set(sizes) }
  expect(asked.sizes.size).toBeGreaterThan(0)
  expect(await getLines(['auk', 'otter'])).toMatchObject({ code: 0, stdout: '\nriver\n' })
  expect({ requests: requests / 2, sizes }).toEqual(asked)
})

test.each([
  ['a lie', () => servers.misbehave(1, 'lie'), ['otter'], /expected answers from the database/],
  ['a server that is away', () => servers.misbehave(0, 'down'), ['otter'], /127\.0\.0\.1/],
  ['no key', () => {}, [], /expected keys/],
  ['keys and --stdin', () => {}, ['otter', '--stdin'], /expected keys/],
  ['a wrong option', () => {}, ['--wrong'], /unknown option/],
  ['a publisher key that is no file', () => {}, ['--publisher-key', 'none', 'otter'], /none/],
])('%s: the status is 2, nothing is printed, and no message has a key', async (_, misbehave, args, message) => {
  misbehave()
  const { code, stdout, stderr } = await get(...args)
  servers.misbehave(0, undefined)
  servers.misbehave(1, undefined)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(message)
  expect(stderr).not.toContain('otter')
})
