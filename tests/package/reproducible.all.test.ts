// Two builds give the same packages, byte for byte: this one, and one in another folder, with other times of files, another time
// zone, language and umask. It compiles everything anew but `@keyhush/pointproofs`, which `npm run rehearse` compares too.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, symlink, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readJson } from '../../tools/release/packages.mjs'
import { temporaryFolder } from '../support/servers.js'
import { env, root, run, runWith } from './packed.js'

const WORKSPACES = [
  ...['packages/protocol', 'packages/wasm', 'packages/client', 'packages/react-native'],
  ...['packages/confidential', 'server'],
]

let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeAll(async () => {
  folder = await temporaryFolder()
})
afterAll(() => folder.remove())

test('builds in two folders give the same WebAssembly and the same tarballs', async () => {
  const other = join(folder.path, 'another folder')
  await copySources(other)
  await linkPackages(other)
  await symlink(join(root, '.tools'), join(other, '.tools')) // compiles the same programs

  const [mine, theirs] = ['mine', 'theirs'].map(name => join(folder.path, name)) as [string, string]
  await mkdir(mine)
  await mkdir(theirs)
  const elsewhere = { ...env, TZ: 'Pacific/Auckland', LANG: 'tr_TR.UTF-8', SOURCE_DATE_EPOCH: '978307200' }
  const build = `const { buildProduct } = await import('./tools/build.mjs'); await buildProduct()`
  const pack = (to: string) =>
    `const { packTarballs } = await import('./tools/release/pack.mjs'); await packTarballs(${JSON.stringify(WORKSPACES)}, ${JSON.stringify(to)})`
  const node = (source: string) => ['--input-type=module', '--eval', source]
  await runWith(elsewhere, other, 'bash', '-c', 'umask 077; exec "$@"', 'bash', process.execPath, ...node(build))
  await runWith(elsewhere, other, process.execPath, ...node(pack(theirs)))
  await run(root, process.execPath, ...node(pack(mine)))

  const names = await readdir(mine)
  expect(names).toHaveLength(WORKSPACES.length)
  for (const name of names) {
    const tarball = join(mine, name)
    const twin = join(theirs, name)
    const [first, second] = await Promise.all([filesIn(tarball), filesIn(twin)])
    expect([...second.keys()]).toEqual([...first.keys()])
    expect([...first].filter(([name, bytes]) => !bytes.equals(second.get(name)!)).map(([name]) => name)).toEqual([])
    expect((await readFile(tarball)).equals(await readFile(twin))).toBe(true)
  }
})

/** The files of the repository, as old as the century. */
async function copySources(to: string): Promise<void> {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    ...{ cwd: root, encoding: 'utf8' },
  })
  for (const path of listed
    .trim()
    .split('\n')
    .filter(path => existsSync(join(root, path)))) {
    await mkdir(dirname(join(to, path)), { recursive: true })
    await cp(join(root, path), join(to, path))
    await utimes(join(to, path), 978307200, 978307200)
  }
}

/** node_modules as npm would install it: what others made is that of this repository, our packages are those of `folder`. */
async function linkPackages(folder: string): Promise<void> {
  const [from, to] = [root, folder].map(each => join(each, 'node_modules')) as [string, string]
  await mkdir(join(to, '@keyhush'), { recursive: true })
  for (const name of await readdir(from)) {
    if (name !== '@keyhush') await symlink(join(from, name), join(to, name))
  }
  for (const workspace of [...WORKSPACES, 'packages/pointproofs', 'demo', 'tests']) {
    const { name } = readJson(join(folder, workspace, 'package.json'))
    await symlink(join(folder, workspace), join(to, name))
    const own = join(root, workspace, 'node_modules')
    if (existsSync(own)) await symlink(own, join(folder, workspace, 'node_modules'))
  }
}

/** The files in a tarball, by name, in its order. */
async function filesIn(tarball: string): Promise<Map<string, Buffer>> {
  const names = (await run(root, 'tar', '-tzf', tarball)).trim().split('\n')
  const into = `${tarball}.files`
  await mkdir(into)
  await run(root, 'tar', '-xzf', tarball, '-C', into)
  return new Map(await Promise.all(names.map(async name => [name, await readFile(join(into, name))] as const)))
}
