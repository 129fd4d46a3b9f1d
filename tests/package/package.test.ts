// The packages as npm would publish them, in an app that is no part of this workspace: they hold what they need and no
// more, their types and entries resolve, they run in Node, and bundlers make of the SDK what runs without Node.

import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { build as esbuild } from 'esbuild'
import { build as vite } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { distinctRecords, startPair, temporaryFolder } from '../support/servers.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const packages = { protocol: 'packages/protocol', wasm: 'packages/wasm', client: 'packages/client', server: 'server' }
type PackageName = keyof typeof packages
const packageNames = Object.keys(packages) as PackageName[]

/** Runs a command; its error shows what it printed. */
async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)(command, args, { cwd })).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`)
  }
}

const tool = (path: string, ...args: string[]) => run(root, process.execPath, join(root, 'node_modules', path), ...args)

let folder: Awaited<ReturnType<typeof temporaryFolder>>
/** of the app that has installed the tarballs */
let app: string
const tarballs = {} as Record<PackageName, string>

beforeAll(async () => {
  folder = await temporaryFolder()
  app = join(folder.path, 'app')
  await mkdir(app)
  const workspaces = packageNames.flatMap(name => ['-w', packages[name]])
  const printed = await run(root, 'npm', 'pack', ...workspaces, '--pack-destination', folder.path, '--silent')
  for (const file of printed.trim().split('\n')) {
    const name = packageNames.find(name => file.startsWith(`pirouette-${name}-`))!
    tarballs[name] = join(folder.path, file)
  }
  const dependencies = Object.fromEntries(packageNames.map(name => [`@pirouette/${name}`, `file:${tarballs[name]}`]))
  await writeFile(join(app, 'package.json'), JSON.stringify({ private: true, type: 'module', dependencies }))
  await run(app, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', '--silent')
})
afterAll(() => folder.remove())

describe.each(packageNames)('@pirouette/%s', name => {
  test('holds what it needs: what it was built into, and its sources for those who debug', async () => {
    const installed = join(app, 'node_modules/@pirouette', name)
    const files = (await readdir(installed, { recursive: true, withFileTypes: true }))
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name).slice(installed.length + 1))
    const strange = files.filter(
      file =>
        !/^(dist\/.*\.(js|d\.ts)(\.map)?|src\/.*\.ts|generated\/[^/]*\.(js|d\.ts|wasm)|bin\/pirouette\.js|[^/]*\.(md|json)|LICENSE[^/]*)$/.test(
          file,
        ),
    )
    expect(strange).toEqual([])
    expect(files).toContain('dist/index.js')
    if (name === 'wasm') {
      expect(files).toEqual(
        expect.arrayContaining(['generated/core_bg.wasm', 'generated/client_bg.wasm', 'generated/inline.js']),
      )
    }
  })

  test('satisfies publint', () => tool('publint/src/cli.js', 'run', tarballs[name], '--strict'))

  test('has types and entries for every way to import it', () =>
    tool(
      '@arethetypeswrong/cli/dist/index.js',
      ...[tarballs[name], '--profile', 'esm-only', '--exclude-entrypoints', 'client_bg.wasm'],
    ))
})

test('in Node the packages build, serve and look up', async () => {
  await writeFile(join(app, 'animals.csv'), 'key,value\notter,river\nheron,shore\n')
  await writeFile(
    join(app, 'main.js'),
    `import { open } from '@pirouette/client'
     import { buildDataset, createServer, loadDataset } from '@pirouette/server'
     await buildDataset({ data: 'animals.csv', out: 'animals' })
     const dataset = await loadDataset('animals')
     const apps = [await createServer({ datasets: [{ dataset }] }), await createServer({ datasets: [{ dataset }] })]
     const map = await open({ mode: 'full', servers: [await apps[0].listen({ port: 0 }), await apps[1].listen({ port: 0 })] })
     console.log(new TextDecoder().decode(await map.get('otter')), await map.has('auk'))
     await map.close()
     for (const app of apps) app.server.closeAllConnections(), await app.close()`,
  )
  expect(await run(app, process.execPath, 'main.js')).toBe('river false\n')
  expect(await run(app, join(app, 'node_modules/.bin/pirouette'), '--version')).toMatch(/^\d+\.\d+\.\d+\n$/)
})

test('the suites for stores and storages of others run where nothing of this repository is', async () => {
  await writeFile(
    join(app, 'suites.js'),
    `import { MemoryStore } from '@pirouette/client/environment'
     import { conformance as storeLaws } from '@pirouette/client/testing/store'
     import { MemoryStorage } from '@pirouette/server'
     import { conformance as storageLaws } from '@pirouette/server/testing/storage'
     for (const { run } of storeLaws) {
       const store = new MemoryStore({ durable: true })
       await run({ store, other: store, crash: async () => {}, remove: async () => {} })
     }
     for (const { run } of storageLaws) await run(new MemoryStorage())
     console.log(storeLaws.length > 20, storageLaws.length > 5)`,
  )
  expect(await run(app, process.execPath, 'suites.js')).toBe('true true\n')
})

const values = distinctRecords(20, 16)

test.each<[string, bundle: (entry: string, outFolder: string) => Promise<unknown>]>([
  [
    'esbuild',
    (entry, outdir) =>
      esbuild({ entryPoints: [entry], outdir, bundle: true, minify: true, platform: 'browser', format: 'esm' }),
  ],
  [
    'vite',
    (entry, outDir) =>
      vite({
        root: app,
        configFile: false,
        logLevel: 'error',
        build: { outDir, lib: { entry, formats: ['es'], fileName: 'browser' } },
      }),
  ],
])(
  '%s makes a file of the SDK that needs nothing of Node, and no other unless a signature is checked',
  async (name, bundle) => {
    const entry = join(app, 'browser.js')
    await writeFile(entry, `export { open } from '@pirouette/client'`)
    await bundle(entry, join(app, name))
    const script = join(app, name, 'browser.js')
    const files = await readdir(join(app, name))
    const others = files.filter(file => file !== 'browser.js')
    // A bundler that splits what is imported lazily makes a file of Ed25519.
    expect(others).toEqual(name === 'vite' ? [expect.stringMatching(/^ed25519-.*\.js$/)] : [])
    for (const file of files) {
      expect(await readFile(join(app, name, file), 'utf8')).not.toMatch(/\bimport\b[^.(]*['"]|\brequire\(|node:/)
    }
    for (const file of others) await rm(join(app, name, file))

    const servers = await startPair({ format: 'bin', content: Buffer.concat(values), recordBytes: 16 })
    const { open } = (await import(pathToFileURL(script).href)) as typeof import('@pirouette/client')
    const map = await open({ servers: servers.urls, mode: 'full' })
    for (const [index, value] of values.entries()) expect(await map.at(index)).toEqual(value)
    await map.close()
    await servers.close()
  },
)
