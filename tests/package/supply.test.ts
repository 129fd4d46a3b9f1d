// What comes from others: why each dependency is there, under which licence, and whether anything runs where it is installed.

import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { faultsOf, published, readJson, workspaces } from '../../tools/release/packages.mjs'
import { followers } from '../../tools/release/version.mjs'
import { root } from './packed.js'

const reasons: Record<'npm' | 'cargo' | 'apart', Record<string, string>> = readJson(
  join(root, 'tools/release/dependencies.json'),
)
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  ...{ cwd: root, encoding: 'utf8' },
})
  .trim()
  .split('\n')
  .filter(path => existsSync(join(root, path)))

test('every npm package that one of ours names has a line that says why, and every line a package', () => {
  const named = ['', ...workspaces(root)].flatMap(workspace => {
    const manifest = readJson(join(root, workspace, 'package.json'))
    const kinds = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']
    return kinds.flatMap(kind => Object.keys(manifest[kind] ?? {}))
  })
  const others = new Set(named.filter(name => !name.startsWith('@keyhush/')))
  expect(Object.keys(reasons.npm)).toEqual([...others].sort())
})

test('every crate that one of ours names has a line that says why, and every line a crate', () => {
  const named = tracked
    .filter(path => path.endsWith('Cargo.toml'))
    .flatMap(path => {
      const tables = readFileSync(join(root, path), 'utf8').split(/^\[/m)
      return tables
        .filter(table => /^[^\]]*dependencies\]/.test(table))
        .flatMap(table => [...table.matchAll(/^([\w-]+) *=(?!.*\bpath *=)/gm)].map(([, name]) => name!))
    })
  expect(named.length).toBeGreaterThan(30)
  expect(Object.keys(reasons.cargo)).toEqual([...new Set(named)].sort())
})

test('every lock file apart from those of the workspace has a line that says who installs it', () => {
  const locks = tracked.filter(path => path.endsWith('/package-lock.json')).map(dirname)
  expect(Object.keys(reasons.apart).sort()).toEqual(locks.sort())
})

/** What users install may have these licences; what only developers do, the others as well. */
const LICENCES = ['Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', 'MIT OR Apache-2.0']
const OF_TOOLS = ['0BSD', 'BlueOak-1.0.0', 'CC0-1.0', 'MIT-0', 'MPL-2.0']
/** Nothing of ours contains these: the demo reads a list where it is installed, and a test's library chooses of two licences. */
const EXCEPTIONS: Record<string, string> = {
  'eth-phishing-detect': 'DBAD',
  sjcl: '(BSD-2-Clause OR GPL-2.0-only)',
}

interface Locked {
  readonly license?: string
  readonly dev?: boolean
  readonly link?: boolean
  readonly hasInstallScript?: boolean
}
const { packages }: { packages: Record<string, Locked> } = readJson(join(root, 'package-lock.json'))
const installed = Object.entries(packages)
  .filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
  .map(([path, locked]) => ({ name: path.replace(/^.*node_modules\//, ''), ...locked }))

test('npm packages have licences of the list (cargo-deny checks those of crates: npm run supply)', () => {
  const allowed = ({ name, license = 'none', dev }: (typeof installed)[number]) =>
    [...LICENCES, ...(dev ? OF_TOOLS : [])].includes(license) || EXCEPTIONS[name] === license
  expect(installed.length).toBeGreaterThan(300)
  expect(installed.filter(one => !allowed(one)).map(({ name, license }) => `${name}: ${license}`)).toEqual([])
})

test('users need no script at install: those that lmdb has only look for the binary of the platform', () => {
  const scripted = installed.filter(({ dev, hasInstallScript }) => hasInstallScript && !dev).map(({ name }) => name)
  expect(scripted).toEqual(['lmdb', 'msgpackr-extract'])
  const platforms = installed.map(({ name }) => name).filter(name => name.startsWith('@lmdb/lmdb-'))
  const stores = readFileSync(join(root, 'docs/operations/stores.md'), 'utf8')
  const [, listed] = /LMDB has binaries for ([^.]*)\./.exec(stores)!
  expect(listed!.match(/[a-z\d]+-[a-z\d]+/g)!.sort()).toEqual(
    platforms.map(name => name.slice('@lmdb/lmdb-'.length)).sort(),
  )
})

test('what is published follows the root’s package.json, and a registry takes it with provenance', () => {
  const differing = [...followers(root)].filter(([path, text]) => readFileSync(join(root, path), 'utf8') !== text)
  expect(differing.map(([path]) => path)).toEqual([])
  const manifest = readJson(join(root, 'package.json'))
  const manifests = published(root).map(workspace => readJson(join(root, workspace, 'package.json')))
  expect(manifests.map(({ name }) => name)).toEqual(
    ['protocol', 'wasm', 'client', 'confidential', 'pointproofs', 'react-native', 'server'].map(
      name => `@keyhush/${name}`,
    ),
  )
  expect(manifests.flatMap(one => faultsOf(one, manifest))).toEqual([])
})

test.each<[string, object]>([
  ['version', { version: '9.9.9' }],
  ['repository', { repository: { type: 'git', url: 'git+https://forge.example/other.git' } }],
  ['files', { files: [] }],
  ['access', { publishConfig: {} }],
  ['postinstall', { scripts: { postinstall: 'node run.js' } }],
])('a package with another %s is not published', (what, change) => {
  const manifest = readJson(join(root, 'package.json'))
  const faults = faultsOf({ ...readJson(join(root, 'packages/client/package.json')), ...change }, manifest)
  expect(faults).toHaveLength(1)
  expect(faults[0]).toContain(what)
})

test('no crate can be published by mistake', () => {
  const crates = tracked.filter(path => path.endsWith('Cargo.toml')).map(path => readFileSync(join(root, path), 'utf8'))
  const open = crates.filter(text => text.includes('[package]') && !/^publish(\.workspace = true| = false)/m.test(text))
  expect(open).toEqual([])
})
