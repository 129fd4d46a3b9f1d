// `npm run release`: versions, the changelog, the list of sums, and when it refuses. `npm run rehearse` runs all of it.

import { createHash, createPublicKey, generateKeyPairSync, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkVersion, dated, readChanges } from '../../tools/release/release.mjs'
import { addSums, listSums, readReleaseKey, signFile } from '../../tools/release/sums.mjs'
import { followers, setVersion } from '../../tools/release/version.mjs'
import { temporaryFolder } from '../support/servers.js'
import { root, run, write } from './packed.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let clone: string
beforeAll(async () => {
  folder = await temporaryFolder()
  clone = join(folder.path, 'clone')
  await run(folder.path, 'git', 'clone', '--quiet', '--shared', root, clone)
})
afterAll(() => folder.remove())

test.each<[string, string[]]>([
  ['1.2.3', []],
  ['1.2.3', ['v1.2.2', 'v1.2.3-rc.2', 'v0.9.9', 'very old']],
  ['1.10.0', ['v1.9.0']],
  ['1.2.3-rc.10', ['v1.2.3-rc.9']],
])('%s may follow %j', (version, tags) => {
  expect(() => checkVersion(version, tags)).not.toThrow()
})

test.each<[string, string[]]>([
  ['1.2', []],
  ['v1.2.3', []],
  ['1.2.3', ['v1.2.3']],
  ['1.2.3', ['v1.10.0']],
  ['1.2.3-rc.1', ['v1.2.3']],
  ['1.2.3-rc.9', ['v1.2.3-rc.10']],
  ['1.2.3-rc.01', []],
  ['01.2.3', []],
])('%s may not follow %j', (version, tags) => {
  expect(() => checkVersion(version, tags)).toThrow(/expected a version/)
})

const CHANGELOG = '# Changelog\n\n## 1.2.3 (unreleased)\n\n- New.\n\n## 1.2.2 (1 May 2026)\n\n- Old.\n'

test('a release has a section of the changelog, which gets its date; a candidate has that of its release', () => {
  expect(readChanges(CHANGELOG, '1.2.3')).toBe('- New.')
  expect(readChanges(CHANGELOG, '1.2.3-rc.1')).toBe('- New.')
  for (const version of ['1.2.4', '1.2.4-rc.1']) {
    expect(() => readChanges(CHANGELOG, version)).toThrow('expected a section "## 1.2.4 (unreleased)"')
  }
  expect(() => readChanges(CHANGELOG.replace('- New.', ''), '1.2.3')).toThrow(/came none/)
  const day = new Date('2026-12-31T23:30:00Z')
  expect(dated(CHANGELOG, '1.2.3', day)).toBe(CHANGELOG.replace('unreleased', '31 December 2026'))
  expect(dated(CHANGELOG, '1.2.3-rc.1', day)).toBe(CHANGELOG)
})

test('one place has the version: all packages, crates and lock files follow it', async () => {
  setVersion(clone, '9.8.7')
  const texts = [...followers(clone)].map(([path]) => [path, readFileSync(join(clone, path), 'utf8')] as const)
  expect(texts.length).toBeGreaterThan(15)
  const own = /"@keyhush\/[\w-]+": "\d|^version = "0\.1\.0"$|^ {2}"version": "0\.1\.0"/m
  expect(texts.filter(([path, text]) => !path.endsWith('.lock') && own.exec(text)?.[0].includes('0.1.0'))).toEqual([])
  // npm and cargo would change their lock files if they did not agree.
  await run(clone, 'npm', 'install', '--package-lock-only', '--ignore-scripts', '--offline')
  expect(followers(clone).get('package-lock.json')).toBe(await readFile(join(clone, 'package-lock.json'), 'utf8'))
  for (const workspace of ['rust-core', 'packages/confidential/rust', 'packages/pointproofs/rust']) {
    await run(join(clone, workspace), 'cargo', 'tree', '--locked', '--offline', '--depth', '0')
  }
  await run(clone, 'git', 'checkout', '--quiet', '.')
})

test('a dirty tree is refused', async () => {
  await symlink(join(root, 'node_modules'), join(clone, 'node_modules'))
  await write(clone, { 'left-over.txt': '' })
  await expect(releaseInClone(['--dry-run', '0.1.0'])).rejects.toThrow(
    /expected a clean tree, came changes; commit or stash them:[\s\S]*\?\? left-over\.txt/,
  )
})

test('the list has both sums of a tarball and of its files, and OpenSSL’s form of a key verifies it', async () => {
  const contents = join(folder.path, 'package')
  await write(contents, { 'b.txt': 'beta', 'deep/a.txt': 'alpha' })
  const tarball = join(folder.path, 'keyhush-some-1.2.3.tgz')
  await run(folder.path, 'tar', '-czf', tarball, 'package')
  const list = await listSums('Title', { '@keyhush/some': tarball })
  const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
  const lines = (path: string, bytes: Uint8Array) => [
    `SHA256 (${path}) = ${sha256(bytes)}`,
    `BLAKE3 (${path}) = ${bytesToHex(blake3(bytes))}`,
  ]
  const text = (value: string) => new TextEncoder().encode(value)
  expect(list.trim().split('\n')).toEqual([
    '# Title',
    ...lines('keyhush-some-1.2.3.tgz', await readFile(tarball)),
    ...lines('@keyhush/some/b.txt', text('beta')),
    ...lines('@keyhush/some/deep/a.txt', text('alpha')),
  ])

  const file = join(folder.path, 'list.sums')
  await writeFile(file, list)
  const bill = join(folder.path, 'npm.cdx.json')
  await writeFile(bill, '{}')
  addSums(file, [bill])
  const whole = text(`${list}${lines('npm.cdx.json', text('{}')).join('\n')}\n`)
  expect(new Uint8Array(await readFile(file))).toEqual(whole)

  signFile(file, readReleaseKey(await keyFile('release.key', 'ed25519')))
  const [signature, pem] = await Promise.all([readFile(`${file}.sig`), readFile(`${file}.pem`)])
  expect(verify(null, whole, createPublicKey(pem), signature)).toBe(true)
  expect(verify(null, text(`${list} `), createPublicKey(pem), signature)).toBe(false)
})

test('another key is refused before anything else, and one in the repository, which a commit could publish', async () => {
  const keys: [file: string, said: RegExp][] = [
    [join(folder.path, 'nowhere'), /came no file/],
    [join(folder.path, 'no-folder/release.key'), /came no file/],
    [join(clone, 'package.json'), /expected a file outside the repository, came one in it/],
    [await write(folder.path, { garbage: 'hi' }).then(() => join(folder.path, 'garbage')), /came another file/],
    [await keyFile('other.key', 'x25519'), /came one of x25519/],
  ]
  for (const [file, said] of keys) await expect(releaseInClone(['--key', file, '0.1.0']), file).rejects.toThrow(said)
  await expect(releaseInClone(['0.1.0'])).rejects.toThrow(/expected --key FILE/)
})

/** A new private key in PEM. */
async function keyFile(name: string, kind: 'ed25519' | 'x25519'): Promise<string> {
  const { privateKey } = generateKeyPairSync(kind as 'ed25519')
  const file = join(folder.path, name)
  await writeFile(file, privateKey.export({ format: 'pem', type: 'pkcs8' }))
  return file
}

/** In the clone, whose tree is dirty. */
function releaseInClone(args: readonly string[]): Promise<string> {
  const call = `const { release } = await import('./tools/release/release.mjs'); await release(${JSON.stringify(args)})`
  return run(clone, process.execPath, '--input-type=module', '--eval', call)
}
