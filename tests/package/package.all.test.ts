// The packages as npm would publish them, in an app outside of this workspace: contents, types, entries, Node, and bundles that
// run without Node.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { build as esbuild } from 'esbuild'
import { build as vite } from 'vite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../server/test/helpers.js'
import { distinctRecords, startPair, temporaryFolder } from '../support/servers.js'
import { THOROUGH } from '../support/thorough.js'
import { env, pack, ran, root, run, tool, write } from './packed.js'

const packages = {
  protocol: 'packages/protocol',
  wasm: 'packages/wasm',
  client: 'packages/client',
  'react-native': 'packages/react-native',
  server: 'server',
}
type PackageName = keyof typeof packages
const packageNames = Object.keys(packages) as PackageName[]

/** The exports of a package: its entries, and their files. */
function exportsOf(name: PackageName): { entries: string[]; files: string[] } {
  const { exports } = JSON.parse(readFileSync(join(root, packages[name], 'package.json'), 'utf8'))
  const files = [...JSON.stringify(exports).matchAll(/"\.\/((?:dist|generated)\/[^"]*)"/g)].map(([, file]) => file!)
  return { entries: Object.keys(exports).map(entry => entry.slice(2)), files }
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>
/** of the app that has installed the tarballs, as the README says */
let app: string
const tarballs = {} as Record<PackageName, string>
const quickStart = await quickStartOf()
/** the README's two servers, which run as long as tests do */
let developing: Awaited<ReturnType<typeof begin>>

beforeAll(async () => {
  folder = await temporaryFolder()
  app = join(folder.path, 'try')
  await mkdir(app)
  for (const file of await pack(
    packageNames.map(name => packages[name]),
    app,
  )) {
    const name = packageNames.find(name => basename(file).startsWith(`keyhush-${name}-`))!
    tarballs[name] = file
  }
  developing = await begin(app, quickStart.develop, 'changes.jsonl\n')
  const made = JSON.parse(await readFile(join(app, 'package.json'), 'utf8')) // by `npm init`
  await writeFile(join(app, 'package.json'), JSON.stringify({ ...made, type: 'module' }))
})
afterAll(async () => {
  await developing?.interrupt()
  await folder.remove()
})

describe.each(packageNames)('@keyhush/%s', name => {
  test('has its built files, its sources for debugging, and nothing else', async () => {
    const installed = join(app, 'node_modules/@keyhush', name)
    const files = (await readdir(installed, { recursive: true, withFileTypes: true }))
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name).slice(installed.length + 1))
    const strange = files.filter(
      file =>
        !/^(dist\/.*\.(js|d\.ts)(\.map)?|src\/.*\.(ts|md)|generated\/[^/]*\.(js|d\.ts|wasm)|bin\/keyhush\.js|[^/]*\.(md|json)|LICENSE[^/]*)$/.test(
          file,
        ),
    )
    expect(strange).toEqual([])
    const exported = exportsOf(name).files
    expect(files).toEqual(expect.arrayContaining([...exported, 'LICENSE-APACHE', 'LICENSE-MIT']))
    expect(files).toContain(name === 'wasm' ? 'dist/client.js' : 'dist/index.js')
    if (name === 'wasm') {
      expect(files).toEqual(
        expect.arrayContaining([
          ...[
            'core_bg.wasm',
            'client_bg.wasm',
            'inline.js',
            'single_bg.wasm',
            'inline-single.js',
            'instant_bg.wasm',
            'inline-instant.js',
          ].map(name => `generated/${name}`),
        ]),
      )
    }
  })

  test('names no folder of the machine that built it', async () => {
    const installed = join(app, 'node_modules/@keyhush', name)
    const built = (await readdir(installed, { recursive: true })).filter(file => /\.(wasm|js)$/.test(file))
    const naming: string[] = []
    for (const file of built) {
      const text = await readFile(join(installed, file), 'latin1')
      if (text.includes(root) || text.includes('registry/src/')) naming.push(file)
    }
    expect(naming).toEqual([])
  })

  test('satisfies publint', () => tool('publint/src/cli.js', 'run', tarballs[name], '--strict'))

  // `npm test` checks the client's; `npm run test:all` all. Below, apps are compiled with all four.
  const modules = exportsOf(name).entries.filter(entry => entry.endsWith('.wasm'))
  const sampled = THOROUGH || name === 'client' ? test : () => {}
  sampled('has types and entries for every way to import it', () =>
    tool(
      '@arethetypeswrong/cli/dist/index.js',
      ...[tarballs[name], '--profile', 'esm-only'],
      ...(modules.length > 0 ? ['--exclude-entrypoints', ...modules] : []),
    ),
  )
})

test.each(packageNames)(
  'the README of @keyhush/%s has no link into this repository: on a registry it leads nowhere',
  async name => {
    const readme = await readFile(join(app, 'node_modules/@keyhush', name, 'README.md'), 'utf8')
    expect([...readme.matchAll(/\]\((?!https?:|#)([^)]*)\)/g)].map(([, target]) => target)).toEqual([])
  },
)

describe('the SDK without the servers', () => {
  let alone: string
  let warned: string
  beforeAll(async () => {
    alone = join(folder.path, 'alone')
    await write(alone, { 'package.json': '{ "type": "module" }' })
    const files = (['protocol', 'wasm', 'client'] as const).map(name => tarballs[name])
    warned = (await promisify(execFile)('npm', ['install', ...files], { cwd: alone, env })).stderr
  })

  test('is installed without a warning, and without what only Node needs', async () => {
    expect(warned).not.toMatch(/EBADENGINE|deprecated/)
    const installed = (await readdir(join(alone, 'node_modules'))).filter(name => !name.startsWith('.'))
    expect(installed.sort()).toEqual(['@keyhush', '@noble', 'idb', 'typebox'])
  })

  test("names the package that Node's file store needs, whatever storage is asked for", async () => {
    const printed = await ran(
      alone,
      'main.js',
      `import { open } from '@keyhush/client'
       import { fileStore } from '@keyhush/client/node'
       const servers = ['http://127.0.0.1:1', 'http://127.0.0.1:2']
       for (const storage of ['preferred', 'required']) {
         const error = await open({ servers, store: fileStore('state'), storage, mode: 'full' }).catch(error => error)
         console.log(error.code, error.message)
       }`,
    )
    const [preferred, required] = printed.split('\n')
    expect(preferred).toMatch(/^usage fileStore: .*npm install fs-native-extensions$/)
    expect(required).toBe(preferred)
  })

  test('imports its entries, but for that of React, which says what it needs', async () => {
    const printed = await ran(
      alone,
      'entries.js',
      `import { fakeMap } from '@keyhush/client/testing'
       import { open } from '@keyhush/client/instant'
       console.log(typeof open, await fakeMap({ otter: 'river' }).getText('otter'))
       await import('@keyhush/client/react').catch(({ message }) => console.log(message))`,
    )
    expect(printed).toMatch(/^function river\n.*'react'/)
  })
})

test('in Node the packages build, serve and look up', async () => {
  const printed = await ran(
    app,
    'main.js',
    `import { open } from '@keyhush/client'
     import { buildDataset, createServer, loadDataset } from '@keyhush/server'
     await buildDataset({ data: 'animals.csv', out: 'animals' }) // the README's
     const dataset = await loadDataset('animals')
     const apps = [await createServer({ datasets: [{ dataset }] }), await createServer({ datasets: [{ dataset }] })]
     const map = await open({ mode: 'full', servers: [await apps[0].listen({ port: 0 }), await apps[1].listen({ port: 0 })] })
     console.log(new TextDecoder().decode(await map.get('otter')), await map.has('auk'))
     await map.close()
     for (const app of apps) app.server.closeAllConnections(), await app.close()`,
  )
  expect(printed).toBe('river false\n')
  expect(await run(app, join(app, 'node_modules/.bin/keyhush'), '--version')).toMatch(/^\d+\.\d+\.\d+\n$/)
})

test('a feature of a separate package names the package to install', async () => {
  const keyhush = join(app, 'node_modules/.bin/keyhush')
  const asked = run(app, keyhush, 'ceremony', 'init', '--out', 'begun')
  await expect(asked).rejects.toThrow(
    'keyhush: pointproofs need a package of their own: npm install @keyhush/pointproofs',
  )
  const printed = await ran(
    app,
    'proofs.js',
    `import { open } from '@keyhush/client'
     const servers = ['https://a.example', 'https://b.example']
     await open({ servers, mode: 'full', proofs: 'pointproofs' }).catch(({ code, message }) => console.log(code, message))`,
  )
  expect(printed).toBe(
    "usage proofs: expected for 'pointproofs' its package, got none: npm install @keyhush/pointproofs, " +
      "and pass open({ pointproofs: () => import('@keyhush/pointproofs') })\n",
  )
})

/** What an app in Node does with `estimate` and `open`: a lookup in every mode. */
const lookUp = (servers: readonly string[]) => `
  const servers = ${JSON.stringify(servers)}
  console.log((await estimate(servers)).mode)
  const alone = { servers: [servers[0]], integrity: 'server' }
  for (const options of [{ mode: 'local' }, { mode: 'instant' }, { mode: 'full' }, { mode: 'single', ...alone }]) {
    const map = await open({ servers, storage: 'memory', ...options })
    console.log(map.mode, await map.getText('otter'))
    await map.close()
  }`
const required = (servers: readonly string[]) =>
  `const { estimate, open } = require('@keyhush/client')\n;(async () => {${lookUp(servers)}})()`
const FOUND = 'local\nlocal river\ninstant river\nfull river\nsingle river\n'

describe('where only one file of JavaScript is, as on a server that renders pages', () => {
  let servers: Awaited<ReturnType<typeof startPair>>
  beforeAll(async () => {
    servers = await startPair({ format: 'csv', content: 'key,value\notter,river\n' })
  })
  afterAll(() => servers.close())

  test.each(['esm', 'cjs'] as const)('esbuild for Node, %s', async format => {
    const elsewhere = join(folder.path, `bundled-${format}`)
    const work = `(async () => {${lookUp(servers.urls)}})()`
    const entry = join(app, 'node.js')
    await writeFile(entry, `import { estimate, open } from '@keyhush/client'\n${work}`)
    const outfile = join(elsewhere, format === 'esm' ? 'app.mjs' : 'app.cjs')
    await esbuild({ entryPoints: [entry], outfile, bundle: true, minify: true, platform: 'node', format })
    expect(await readdir(elsewhere)).toHaveLength(1)
    expect(await run(elsewhere, process.execPath, outfile)).toBe(FOUND)
  })

  test('every file on its own as CommonJS, as Jest makes of it', async () => {
    const outdir = join(folder.path, 'transformed/node_modules')
    await cp(join(app, 'node_modules/idb'), join(outdir, 'idb'), { recursive: true })
    for (const name of ['client', 'protocol', 'wasm'].map(name => `@keyhush/${name}`)) {
      const from = join(app, 'node_modules', name)
      const files = (await readdir(from, { recursive: true })).filter(file => file.endsWith('.js'))
      const entryPoints = files
        .map(file => join(from, file))
        .filter(file => !/generated.core\.js$|(node|prover)\.js$/.test(file))
      await esbuild({
        ...{ entryPoints, outdir: join(outdir, name), outbase: from, format: 'cjs', platform: 'node' },
        supported: { 'dynamic-import': false },
      })
      const { exports } = JSON.parse(await readFile(join(from, 'package.json'), 'utf8'))
      await writeFile(join(outdir, name, 'package.json'), JSON.stringify({ name, exports }))
    }
    await write(join(outdir, '..'), { 'package.json': '{}' })
    expect(await ran(join(outdir, '..'), 'app.js', required(servers.urls))).toBe(FOUND)
  })

  test('the one file that the package has for pages without a bundler', async () => {
    const elsewhere = join(folder.path, 'one-file')
    await mkdir(elsewhere)
    await cp(join(app, 'node_modules/@keyhush/client/dist/keyhush.js'), join(elsewhere, 'keyhush.mjs'))
    const program = `import { estimate, open } from './keyhush.mjs'\n${lookUp(servers.urls)}`
    expect(await ran(elsewhere, 'app.mjs', program)).toBe(FOUND)
  })

  test('required rather than imported, from CommonJS', async () => {
    expect(await ran(app, 'required.cjs', required(servers.urls), '--no-warnings')).toBe(FOUND)
  })

  test('with the module handed in: none is bundled, and the file of the package will do', async () => {
    const entry = join(app, 'slim.js')
    const file = join(app, 'node_modules/@keyhush/wasm/generated/client_bg.wasm')
    const wasm = `() => require('node:fs').readFileSync(${JSON.stringify(file)})`
    await writeFile(
      entry,
      `import { open } from '@keyhush/client'
       open({ servers: ${JSON.stringify(servers.urls)}, wasm: ${wasm} }).then(async map => {
         console.log(await map.getText('otter'))
         await map.close()
       })`,
    )
    const outdir = join(folder.path, 'slim')
    const { metafile } = await esbuild({
      ...{ entryPoints: [entry], outdir, bundle: true, minify: true, platform: 'node', format: 'esm', splitting: true },
      ...{
        metafile: true,
        banner: { js: `import { createRequire } from 'node:module'; const require = createRequire('/');` },
      },
    })
    const [name] = Object.entries(metafile.outputs).find(
      ([, { inputs }]) => 'generated/inline.js' in shortened(inputs),
    )!
    await rm(join(process.cwd(), name))
    await writeFile(join(outdir, 'package.json'), '{ "type": "module" }')
    expect(await run(outdir, process.execPath, 'slim.js')).toBe('river\n')
  })
})

/** Paths within their packages. */
function shortened(inputs: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(inputs).map(([path, value]) => [path.replace(/^.*@keyhush\/\w+\//, ''), value]),
  )
}

describe('types', () => {
  /** What an app may write; with a narrower or wider type it does not compile. */
  const source = `
    import { type Change, estimate, type Found, open, KeyhushError, type Progress, ServerError, type Value } from '@keyhush/client'
    import { open as openInstant } from '@keyhush/client/instant'
    import { useLookup, useLookups, usePrivateMap, useWatch } from '@keyhush/client/react'
    import { usePrivateMap as useInstantMap } from '@keyhush/client/react/instant'
    import { fakeMap } from '@keyhush/client/testing'
    export function useText(key: string): string | undefined {
      const { map } = usePrivateMap({ servers: ['https://a.example', 'https://b.example'] }, openInstant)
      return useLookup(key === 'fake' ? fakeMap({ key }) : map, key, 'text').value
    }
    export function useTexts(keys: readonly string[]): readonly (string | undefined)[] | undefined {
      const { map } = useInstantMap({ servers: ['https://a.example', 'https://b.example'] })
      return useLookups(map, keys, 'text', { padTo: 8, follow: true }).values
    }
    export function useOwn(key: string): [string | undefined, Date | undefined, readonly Change[]] {
      const { map } = useInstantMap({ servers: ['https://a.example', 'https://b.example'] })
      const { value, checked, changes } = useWatch(map, key, 'text', { since: undefined, save: mark => void mark.length })
      return [value, checked, changes]
    }
    export async function main(): Promise<string> {
      const configured: readonly string[] = JSON.parse('["https://a.example", "https://b.example"]')
      const map = await open({ servers: configured })
      const value: Found = await map.get('otter')
      if (value !== undefined) new Blob([value satisfies Value])
      const text: string | undefined = await map.getText('otter')
      const json = await map.getJson<{ a: number }>('otter')
      const onProgress = ({ loadedBytes, totalBytes }: Progress) => void (loadedBytes / totalBytes)
      await map.reset({ onProgress })
      const { modes } = await estimate(['https://a.example', 'https://b.example'])
      return \`\${text} \${json?.a} \${modes['instant']?.firstBytes}\`
    }
    export function explain(error: unknown): string {
      if (error instanceof ServerError) return error.server ?? error.code
      if (!(error instanceof KeyhushError)) throw error
      switch (error.code) {
        case 'rate_limited': return \`\${error.server}: \${error.retryAfterMs}\`
        case 'unsupported': return error.reason
        case 'condemned': return error.server ?? error.code
        case 'timeout': return error.servers.join()
        case 'tampered': case 'network': case 'protocol': case 'version': return error.other?.message ?? error.code
        case 'servers_disagree': case 'signature': case 'storage': case 'internal': case 'closed': case 'usage':
          return error.code
        default:
          return error satisfies never
      }
    }`
  const settings: readonly [string, string[]][] = [
    ['a page, nodenext', ['--module', 'nodenext', '--lib', 'es2022,dom', '--types', '']],
    ['a page, bundler', ['--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2022,dom', '--types', '']],
    [
      'Node',
      ['--module', 'nodenext', '--lib', 'es2022', '--typeRoots', join(root, 'node_modules/@types'), '--types', 'node'],
    ],
    ['a worker', ['--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2022,webworker', '--types', '']],
  ]
  // `npm test` takes every other one.
  test.each(settings.filter((_, i) => THOROUGH || i % 2 === 0))(
    'of %s hold without skipLibCheck',
    async (_name, options) => {
      await writeFile(join(app, 'types.ts'), source)
      const strict = [
        '--strict',
        '--noEmit',
        '--exactOptionalPropertyTypes',
        '--skipLibCheck',
        'false',
        '--target',
        'es2022',
      ]
      await run(app, process.execPath, join(root, 'node_modules/typescript/bin/tsc'), ...strict, ...options, 'types.ts')
    },
  )
})

test('the conformance suites for stores and storages run outside of this repository', async () => {
  const printed = await ran(
    app,
    'suites.js',
    `import { MemoryStore } from '@keyhush/client/environment'
     import { conformance as storeLaws } from '@keyhush/client/testing/store'
     import { MemoryStorage } from '@keyhush/server'
     import { conformance as storageLaws } from '@keyhush/server/testing/storage'
     for (const { run } of storeLaws) {
       const store = new MemoryStore({ durable: true })
       await run({ store, other: store, crash: async () => {}, remove: async () => {} })
     }
     for (const { run } of storageLaws) await run(new MemoryStorage())
     console.log(storeLaws.length > 20, storageLaws.length > 5)`,
  )
  expect(printed).toBe('true true\n')
})

test('the commands of the README and of Going to production run word for word and print what it says', async () => {
  const { pack, program, publisher, one, other, again } = quickStart
  const forPages = packageNames.filter(name => name !== 'react-native')
  const workspaces = forPages.map(name => `-w ${packages[name]}`).join(' ')
  expect(pack).toBe(`npm run build\nmkdir -p ../try\nnpm pack ${workspaces} --pack-destination ../try\n`)
  const paste = /^import [\s\S]*?^}\)\n/m.exec(developing.printed)![0]
  await writeFile(join(app, 'app.mjs'), paste + program)
  const printed = await run(app, 'node', 'app.mjs')
  expect(printed).toBe("river\nfalse\n[ 'shore', undefined ]\n")

  const ports = [await freePort(), await freePort()]
  const withPorts = (text: string) => text.replaceAll('8801', `${ports[0]}`).replaceAll('8802', `${ports[1]}`)
  await run(app, 'bash', '-euc', withPorts(publisher))
  const a = await begin(app, withPorts(one), 'listening on ')
  const b = await begin(app, withPorts(other), 'listening on ')
  const digests = (printed: string) => /^manifest hash: .*$/m.exec(printed)![0]
  expect(digests(a.printed)).toBe(digests(b.printed))
  const published = await run(app, 'bash', '-euc', withPorts(again))
  expect(published).toMatch(/epoch: 1 of[\s\S]*epoch: 2 of[\s\S]*changes: 1\n/)
  await a.interrupt()
  await b.interrupt()
})

/** The commands and programs of the README, and those of docs/guide/production.md. */
async function quickStartOf() {
  const blocksOf = async (path: string, section: RegExp) => {
    const [text] = section.exec(await readFile(join(root, path), 'utf8'))!
    return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
  }
  const all = [
    ...(await blocksOf('README.md', /^## Use it in your app\n[\s\S]*?(?=^## )/m)),
    ...(await blocksOf('docs/guide/production.md', /^## 1\.[\s\S]*?(?=^## 4\.)/m)),
  ]
  expect(all.map(([, language]) => language)).toEqual(['sh', 'sh', 'js', 'sh', 'sh', 'sh', 'sh'])
  const names = ['pack', 'develop', 'program', 'publisher', 'one', 'other', 'again'] as const
  const texts = Object.fromEntries(names.map((name, i) => [name, all[i]![2]!]))
  return texts as Record<(typeof names)[number], string>
}

/** Runs commands, the last of which runs until Ctrl-C; waits until it has printed `until`. */
async function begin(cwd: string, commands: string, until: string) {
  const child = spawn('bash', ['-euc', commands], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const orphaned = () => process.kill(-child.pid!, 'SIGKILL')
  process.once('exit', orphaned)
  const ended = once(child, 'close').finally(() => process.off('exit', orphaned))
  const output = { stdout: '', stderr: '' }
  const printed = new Promise<string>((resolve, reject) => {
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', text => {
        output[name] += text
        if (output.stdout.includes(until)) resolve(output.stdout)
      })
    }
    ended.then(() => reject(new Error(`${commands}\nended with:\n${output.stdout}${output.stderr}`)), reject)
  })
  return {
    printed: await printed,
    /** as a terminal does, to the process group; resolves when all have ended */
    async interrupt(): Promise<void> {
      process.kill(-child.pid!, 'SIGINT')
      await ended
    },
  }
}

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
])('%s bundles the SDK without anything of Node, and each mode without the code of others', async (name, bundle) => {
  const entry = join(app, 'browser.js')
  await writeFile(entry, `export { open } from '@keyhush/client'`)
  await bundle(entry, join(app, name))
  const files = await readdir(join(app, name))
  // A bundler that splits makes a file of each dynamic import, which maps load on demand.
  const named = (parts: readonly string[]) => files.filter(file => parts.includes(file.replace(/-.{8}\.js$/, '')))
  const never = ['curves', 'inline-single', 'single']
  const without = {
    instant: [...never, 'client', 'inline', 'keeping', 'stores'],
    full: [...never, 'inline-instant', 'instant'],
  }
  if (name === 'esbuild') expect(files).toEqual(['browser.js'])
  else for (const parts of Object.values(without)) expect(named(parts)).toHaveLength(parts.length)
  for (const file of files) {
    expect(await readFile(join(app, name, file), 'utf8')).not.toMatch(/\bimport\b[^.(]*['"](?!\.\/)|\brequire\(|node:/)
  }

  const servers = await startPair({ format: 'bin', content: Buffer.concat(values), recordBytes: 16 })
  for (const mode of ['instant', 'full'] as const) {
    const served = join(app, name, mode)
    await mkdir(served)
    for (const file of files) await cp(join(app, name, file), join(served, file))
    for (const file of named(without[mode])) await rm(join(served, file))
    const script = pathToFileURL(join(served, 'browser.js')).href
    const { open } = (await import(script)) as typeof import('@keyhush/client')
    const map = await open({ servers: servers.urls, mode })
    for (const [index, value] of values.entries()) expect(await map.at(index)).toEqual(value)
    await map.close()
  }
  await servers.close()
})

test('a server in one file says what its bundler has to leave out', async () => {
  const entry = join(app, 'one-file.js')
  await writeFile(entry, `import { loadDataset } from '@keyhush/server'\nawait loadDataset('animals')\n`)
  const external = ['lmdb', 'fs-native-extensions']
  const banner = { js: `import { createRequire } from 'module'; const require = createRequire(import.meta.url);` }
  const outfile = join(app, 'one-file/server.js')
  await esbuild({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm', external, banner })
  const failed = await run(app, process.execPath, outfile).catch(error => error as Error)
  expect(String(failed)).toMatch(/expected core_bg\.wasm in the package @keyhush\/wasm, .*leave the packages out of it/)
})
