// What the command says of arguments that cannot be: which one, what was expected, and what to write instead. None of it begins
// anything.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../../tests/support/servers.js'
import { keyhush } from './command.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>

beforeAll(async () => {
  folder = await temporaryFolder()
})
afterAll(() => folder.remove())

const publishing = (...args: string[]) => ['publish', '--servers', 'https://a.example', '--key', 'none.key', ...args]
const serve = (...args: string[]) => ['serve', '--port', '0', ...args]

test.each<readonly [name: string, args: string[], message: string | RegExp]>([
  [
    'an origin without a scheme',
    serve('--allow-origin', 'example.com'),
    /scheme:\/\/host.*perhaps https:\/\/example\.com;/,
  ],
  ['an origin with a path', serve('--allow-origin', 'https://example.com/app'), /perhaps https:\/\/example\.com;/],
  [
    'an origin with the usual port',
    serve('--allow-origin', 'https://example.com:443'),
    /perhaps https:\/\/example\.com;/,
  ],
  [
    'an origin of a web view with a path',
    serve('--allow-origin', 'capacitor://localhost/app'),
    /perhaps capacitor:\/\/localhost;/,
  ],
  ['a page in a file', serve('--allow-origin', 'file://host'), /scheme:\/\/host/],
  [
    'one of several origins',
    serve('--allow-origin', 'https://example.com', 'null'),
    /'null' is invalid.*file:\/\/ pages have none; allow \*, or .*app:\/\/name/,
  ],
  ['origins of dev', ['dev', 'animals.csv', '--allow-origin', 'localhost:5173'], /scheme:\/\/host.*or localhost/],
  ['one port for two', ['dev', 'animals.csv', '--ports', '8801'], /a port for each server.*8801,8802/],
  ['the same port twice', ['dev', 'animals.csv', '--ports', '8801,8801'], /a port for each server/],
  [
    'more ports than servers',
    ['dev', 'animals.csv', '--servers', '3', '--ports', '8801,8802'],
    /--ports: expected 3, one a server, got 2/,
  ],
  ['a replica of a directory', serve('--replica', '--store', 'x'), /--replica: expected --store postgres:/],
  ...[
    'password=hunter2',
    'password=hunter2 host=db',
    'sslmode=require host=db password=hunter2',
    'gssencmode=disable password = hunter2',
    'jdbc:postgresql://h/db?user=u&password=hunter2',
    ' postgres://u:hunter2@h/db',
    'pgsql://u:hunter2@h/db',
    'main=password=hunter2 host=db',
  ].map(
    store =>
      [
        `what is no folder: ${store}`,
        serve('--store', store),
        /^(?!.*hunter2).*expected postgres:\/\/user@host\/database/,
      ] as const,
  ),
  ['a password in a URL', serve('--store', 'postgres://a:hunter2@127.0.0.1/b'), /^(?!.*hunter2).*PGPASSFILE/],
  [
    'two datasets without names',
    serve('--dataset', 'x', '--dataset', 'y'),
    /^keyhush: expected one database under \/v1, got two; .*NAME=DIR\n$/,
  ],
  ['one name for two', serve('--dataset', 'a=x', '--store', 'a=y', '--dataset', 'a=z'), /^keyhush: .*NAME=DIR\n$/],
  ['a name that no path can have', serve('--dataset', 'v1=x'), /^keyhush: expected a name of .*got "v1"; .*\n$/],
  ['a proxy that is no address', serve('--trust-proxy', 'proxy.example'), /addresses or CIDR blocks.*10\.0\.0\.0\/8/],
  ['a proxy whose block has no length', serve('--trust-proxy', '10.0.0.1, fd00::/129'), /addresses or CIDR blocks/],
  ['a replica without a store', serve('--dataset', 'x', '--replica'), /--replica, --history: expected --store/],
  ['a history without a store', serve('--dataset', 'x', '--history', '64'), /--replica, --history: expected --store/],
  [
    'an expiry in milliseconds',
    ['build', 'a.csv', '--out', 'x', '--expires', '1900000000000'],
    /must be in seconds; this seems to be milliseconds/,
  ],
  ['no data', ['build', '--out', 'x'], /missing required argument 'data'/],
  ['no folder', ['build', 'a.csv'], /^error: required option '--out/],
  ['fewer partitions than none', ['build', 'a.csv', '--out', 'b', '--partitions', '-1'], /^error: .*'-1' is invalid/],
  ['a format that is none', ['build', 'a.csv', '--out', 'b', '--format', 'xml'], /^error: .*'xml' is invalid/],
  ['a port that is none', ['serve', '--port', '99999'], /^error: .*'99999' is invalid/],
  ['nothing to serve', serve(), /^keyhush: expected a database to serve, got none/],
  ['an unknown command', ['juggle'], /^error: unknown command 'juggle'/],
  ['a publisher without a key', ['publish', '--servers', 'https://a.example'], /required option '--key <file>'/],
  ['a new file and a batch', publishing('--list', 'new.csv', 'batch.jsonl'), /--list: expected no batch, got one/],
  ['a new file again', publishing('--list', 'new.csv', '--again'), /--list: expected no --again, got one/],
  ['a dry run of nothing', publishing('--dry-run'), /--dry-run: expected --list too/],
  ['a dry run of a batch', publishing('batch.jsonl', '--dry-run'), /--dry-run: expected --list too/],
  ['deletes without a file', publishing('--allow-deletes', '7'), /--allow-deletes: expected --list too/],
  ['a batch’s format', publishing('--format', 'csv', 'batch.jsonl'), /--format: expected --list too/],
  ['no number of deletes', publishing('--list', 'new.csv', '--allow-deletes', 'all'), /'all' is invalid/],
])('%s', async (_name, args, message) => {
  const { code, stdout, stderr } = await keyhush(...args)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(message)
  expect(stderr).not.toMatch(/\n\s+at /)
})

test('a publisher’s key that is neither digits nor a file', async () => {
  const store = join(folder.path, 'store')
  const { code, stderr } = await keyhush(...serve('--store', store, '--publisher-key', '5f0c'))
  expect([code, stderr]).toEqual([1, expect.stringMatching(/5f0c: expected 64 hex digits.* neither/)])
})

test.each([
  [1, ['serve', '--port', '0', '--store', 'nowhere']],
  [1, ['export', '--server', 'https://a.example', '--out', 'nowhere']],
  [2, ['audit', '--servers', 'https://a.example', '--store', 'nowhere']],
  [2, ['get', '--servers', 'https://a.example,https://b.example', 'otter']],
])('a publisher’s key that looks like a file, and is none: %i, %j', async (exit, args) => {
  for (const file of ['publisher.pub', './publisher', 'keys/publisher']) {
    const { code, stderr } = await keyhush(...args, '--publisher-key', join(folder.path, file))
    expect([code, stderr]).toEqual([
      exit,
      expect.stringMatching(/expected a file with 64 hex digits, got no such file;/),
    ])
  }
})

test('origins of web views are taken', async () => {
  const origins = ['capacitor://localhost', 'ionic://localhost', 'tauri://localhost', 'app://bundle']
  const { code, stderr } = await keyhush(...serve('--dataset', 'nowhere', '--allow-origin', ...origins))
  expect([code, stderr]).toEqual([1, expect.stringMatching(/nowhere/)]) // and nothing of origins
  expect(stderr).not.toContain('origin')
})

test('a dataset without the name of its store', async () => {
  const store = join(folder.path, 'empty')
  const { code, stderr } = await keyhush(...serve('--store', `a=${store}`, '--dataset', 'x'))
  expect([code, stderr]).toEqual([1, expect.stringMatching(/the store is empty; give --dataset a=DIR/)])
})

test('an error class is an OperatorError, so that a command prints a sentence and no stack', () => {
  /** Those that no command ends with. */
  const inner = [
    'base/errors.ts: OperatorError',
    'base/errors.ts: ThreadError',
    'base/refusal.ts: Refusal',
    'sharded/fabric.ts: LateError',
    'storage/postgres.ts: CalledOff',
  ]
  const src = join(import.meta.dirname, '../src')
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
  const bare = [...files, '../../packages/pointproofs/src/server/errors.ts'].flatMap(file => {
    const text = readFileSync(join(src, file), 'utf8')
    return [...text.matchAll(/class (\w+) extends Error\b/g)].map(([, name]) => `${file}: ${name}`)
  })
  expect(bare.sort(), 'have a new class extend OperatorError (server/src/base/errors.ts)').toEqual(inner)
})
