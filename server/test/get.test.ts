// `keyhush get`: an answer a line on stdout, grep's exit status, and one size of request however many keys --stdin brings.

import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { startServers, type TestServers } from '@keyhush/server/testing'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startPair } from '../../tests/support/servers.js'
import { keyhush, type Outcome } from './command.js'
import { dataFile, freePort } from './helpers.js'

/** a line of its own, escapes of both kinds, an end of a line in Unicode, a reversed direction, an invisible character of two units */
const FORGED = 'nest\n"auk" found "egg"\r\x1b[2J\x9b2J\x7f\u2028\u202e\u{e0001}'
const ANIMALS = {
  otter: 'river',
  heron: 'shore',
  crow: '',
  wren: FORGED,
  ...Object.fromEntries([...'abcdefgh'].map(c => [c, c])),
}

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
  return getFrom(Buffer.from(lines.map(line => `${line}\n`).join('')), ...args)
}

function getFrom(bytes: Uint8Array, ...args: string[]): Promise<Outcome> {
  const input = Readable.from([...bytes].map(byte => Buffer.of(byte)))
  vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as typeof process.stdin)
  return get('--stdin', ...args)
}

test('prints an answer a line: found with its value, which may be empty, or absent; JSON says the same', async () => {
  const lines = '"otter" found "river"\n"auk" absent\n"crow" found ""\n'
  expect(await get('otter', 'auk', 'crow')).toEqual({ code: 0, stdout: lines, stderr: '' })
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

test('a value cannot look like the next answer, and no control character reaches the terminal', async () => {
  const said = [...(await get('wren', 'auk')).stdout, ...(await get('--json', 'wren', 'auk')).stdout]
  expect(said.filter(character => character === '\n')).toHaveLength(4)
  expect(said.filter(character => /[\p{C}\p{Zl}\p{Zp}]/u.test(character) && character !== '\n')).toEqual([])
  const [first] = (await get('--json', 'wren')).stdout.split('\n')
  expect(JSON.parse(first!)).toEqual({ key: 'wren', value: FORGED })
})

test('a set says found or absent', async () => {
  const { urls, close } = await startPair({ format: 'txt', content: 'otter\n' })
  onTestFinished(close)
  const { stdout } = await keyhush('get', '--servers', urls.join(), 'otter', 'auk')
  expect(stdout).toBe('"otter" found ""\n"auk" absent\n')
})

test('a value that is not UTF-8 is base64, and in another encoding each value is text', async () => {
  const content = 'key,value\notter,00ff\n'
  const { urls, close } = await startPair({ format: 'csv', content, valueEncoding: 'hex' })
  onTestFinished(close)
  const { stdout } = await keyhush('get', '--servers', urls.join(), '--json', 'otter')
  expect(JSON.parse(stdout)).toEqual({ key: 'otter', base64: 'AP8=' })
  const found = async (...args: string[]) => (await keyhush('get', '--servers', urls.join(), ...args, 'otter')).stdout
  expect(await found()).toBe('"otter" found base64 "AP8="\n')
  expect(await found('--value-encoding', 'hex')).toBe('"otter" found "00ff"\n')
  expect(await found('--value-encoding', 'base64', '--json')).toBe('{"key":"otter","value":"AP8="}\n')
})

test('the status is 1 if no key is there', async () => {
  expect(await get('auk')).toEqual({ code: 1, stdout: '"auk" absent\n', stderr: '' })
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
  expect(await getLines(all)).toMatchObject({ code: 0, stdout: all.map(key => `"${key}" found "${key}"\n`).join('') })
  const asked = { requests, sizes: new Set(sizes) }
  expect(asked.sizes.size).toBeGreaterThan(0)
  expect(await getLines(['auk', 'otter'])).toMatchObject({ code: 0, stdout: '"auk" absent\n"otter" found "river"\n' })
  expect({ requests: requests / 2, sizes }).toEqual(asked)
})

test('a list that answers fewer at once is asked for fewer', async () => {
  const keys = [...'abcdefghijk']
  const value = 'x'.repeat(30_000)
  const content = `key,value\n${keys.map(key => `${key},${value}\n`).join('')}`
  const { urls, close } = await startPair({ format: 'csv', content, partitions: 64, maxValueBytes: 60_000 })
  onTestFinished(close)
  const all = await keyhush('get', '--servers', urls.join(), ...keys)
  expect(all).toMatchObject({ code: 2, stderr: expect.stringContaining('expected at most 2 keys at once') })
  const input = Readable.from([Buffer.from(keys.join('\n'))])
  vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as typeof process.stdin)
  const lines = keys.map(key => `"${key}" found "${value}"\n`).join('')
  expect(await keyhush('get', '--servers', urls.join(), '--stdin')).toMatchObject({ code: 0, stdout: lines })
})

test('--stdin takes what build takes for the same keys: line feeds alone end lines, and a byte order mark or empty line is no key', async () => {
  const keys = ['otter', 'a line\u2028of\u2029many\u0085ends', 'bare\rreturn', ' spaces ', '\ufeff', 'last']
  const content = `\ufeff${keys.slice(0, 3).join('\r\n')}\r\n\r\n\n${keys.slice(3).join('\n')}`
  const { urls, close } = await startPair({ format: 'txt', content })
  onTestFinished(close)
  const input = Readable.from([Buffer.from(content)])
  vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as typeof process.stdin)
  const { code, stdout } = await keyhush('get', '--servers', urls.join(), '--stdin', '--json')
  const answers = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect([code, answers]).toEqual([0, keys.map(key => ({ key, value: '' }))])
})

test.each([
  ['Latin-1', Buffer.from('\nh\xe9ron\n', 'latin1'), 'standard input:2: expected UTF-8'],
  ['UTF-16', Buffer.from('\ufeffotter\n', 'utf16le'), 'standard input:1: expected UTF-8'],
  ['a key that is too long', Buffer.from(`otter\n${'x'.repeat(4097)}`), 'standard input:2: expected a key of at most'],
])('--stdin with %s ends with the line, and nothing of it is asked', async (_, bytes, words) => {
  const { code, stdout, stderr } = await getFrom(bytes, '--json')
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(words)
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

test('where no server answers, it and `publish` say why, in words for a terminal, and name a proxy that Node does not use', async () => {
  const away = [await freePort(), await freePort()].map(port => `http://127.0.0.1:${port}`).join()
  for (const name of ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']) vi.stubEnv(name, undefined)
  onTestFinished(() => void vi.unstubAllEnvs())
  const [key, batch] = [await dataFile('key', ''), await dataFile('batch.jsonl', '')]
  await rm(key)
  expect((await keyhush('keygen', '--out', key)).code).toBe(0)
  const said = async () => {
    const asked = await keyhush('get', '--servers', away, 'otter')
    const published = await keyhush('publish', batch, '--servers', away, '--key', key)
    return [asked, published].map(({ stderr }) => stderr)
  }
  for (const text of await said()) {
    expect(text).toMatch(/ECONNREFUSED/)
    expect(text).not.toMatch(/PROXY|CORS|policy/)
  }
  vi.stubEnv('https_proxy', 'http://127.0.0.1:1')
  for (const text of await said()) expect(text).toMatch(/the proxy in https_proxy: set NODE_USE_ENV_PROXY=1/)
  vi.stubEnv('NODE_USE_ENV_PROXY', '1')
  for (const text of await said()) expect(text).not.toMatch(/PROXY/)
})
