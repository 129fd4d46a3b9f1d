// The package as it would be published, in an app that has installed it beside the others.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pack, root, run, tool } from '../../../tests/package/packed.js'
import { temporaryFolder } from '../../../tests/support/servers.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let app: string
let tarball: string

beforeAll(async () => {
  folder = await temporaryFolder()
  app = join(folder.path, 'app')
  await mkdir(app)
  await writeFile(join(app, 'package.json'), '{ "type": "module", "private": true }')
  const workspaces = ['packages/protocol', 'packages/wasm', 'packages/client', 'packages/pointproofs', 'server']
  const files = await pack(workspaces, app)
  await run(app, 'npm', 'install', '--silent', ...files)
  tarball = files.find(file => basename(file).includes('pointproofs'))!
})
afterAll(() => folder.remove())

test('it holds what it was built into, and its sources', async () => {
  const files = await readdir(join(app, 'node_modules/@keyhush/pointproofs'), { recursive: true })
  expect(files).toEqual(
    expect.arrayContaining([
      ...['dist/index.js', 'dist/server/index.js', 'dist/server/prover-thread.js', 'src/verifier.ts'],
      ...['inline.js', 'pointproofs.js', 'prover.js', 'prover_bg.wasm'].map(name => `generated/${name}`),
      'README.md',
    ]),
  )
  expect(files.filter(file => /^(rust|test)|tsbuildinfo/.test(file))).toEqual([])
})

test('it satisfies publint, and has types and entries for every way to import it', async () => {
  await tool('publint/src/cli.js', 'run', tarball, '--strict')
  await tool('@arethetypeswrong/cli/dist/index.js', tarball, '--profile', 'esm-only')
})

test('`keyhush ceremony` finds it installed', async () => {
  const keyhush = join(app, 'node_modules/.bin/keyhush')
  expect(await run(app, keyhush, 'ceremony', 'init', '--out', 'begun')).toContain('nobody has contributed yet')
})

test('an app that hands it over ships it as a part of its own, loaded when it is needed; no other app ships it', async () => {
  const bundled = async (contents: string) => {
    const { outputs } = (
      await build({
        stdin: { contents, resolveDir: app },
        ...{ bundle: true, splitting: true, write: false, metafile: true, outdir: 'out' },
        ...{ platform: 'browser', format: 'esm', target: 'es2022' },
      })
    ).metafile
    const isOurs = (name: string) =>
      Object.keys(outputs[name]!.inputs).some(input => input.includes('@keyhush/pointproofs/'))
    const ways = Object.values(outputs).flatMap(({ imports }) => imports)
    return Object.keys(outputs)
      .filter(isOurs)
      .map(name => new Set(ways.filter(({ path }) => path === name).map(({ kind }) => kind)))
  }
  expect(await bundled(`export { open } from '@keyhush/client'`)).toEqual([])
  const parts = await bundled(`
    import { open } from '@keyhush/client'
    export const map = servers => open({ servers, pointproofs: () => import('@keyhush/pointproofs') })`)
  expect(parts.length).toBeGreaterThan(0)
  for (const kinds of parts) expect(kinds).toEqual(new Set(['dynamic-import']))
})

test('each function that is exported has its example', async () => {
  const text = await readFile(join(root, 'packages/pointproofs/src/server/index.ts'), 'utf8')
  expect(text.match(/^export async function/gm)).toHaveLength(text.match(/^ \* @example$/gm)!.length)
})
