// `npm run matrix -- [SETUP…]`: the packages as published, in bundlers, runtimes and frameworks. Each setup is an app outside of
// this repository that has installed the tarballs, and looks up in every mode. Versions: matrix/package-lock.json.
// (package.all.test.ts has CommonJS in Node, esbuild for Node, and TypeScript.)

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startServers } from '@keyhush/server/testing'
import type { Page } from 'puppeteer-core'
import { launchBrowser } from '../../tools/browsers.mjs'
import { startPair, temporaryFolder } from '../support/servers.js'
import { serveFiles } from '../support/web.js'
import { env as npm, pack, root, runWith, write } from './packed.js'

const workspaces = ['packages/protocol', 'packages/wasm', 'packages/client', 'server']
const { NODE_ENV: _, ...inherited } = npm // of what compiles this; apps choose their own
const env = {
  ...inherited,
  ...{ NEXT_TELEMETRY_DISABLED: '1', DENO_NO_UPDATE_CHECK: '1' },
}

/** What every app prints of its lookups. */
const EXPECTED = 'instant river false, full river false, local river false, single river false'
const PROBE = `import { entries } from './entries.mjs'
export async function probe(open, servers) {
  const said = []
  for (const options of [{ mode: 'instant' }, { mode: 'full' }, { mode: 'local' },
                         { mode: 'single', servers: [servers[0]], integrity: 'server' }]) {
    const map = await open({ servers, storage: 'memory', ...options })
    said.push([map.mode, await map.getText('otter'), await map.has('auk')].join(' '))
    await map.close()
  }
  for (const answer of entries) if (await answer(servers) !== 'river') throw new Error('an entry answers wrongly: ' + answer)
  return said.join(', ')
}
`
/** The other entries, where a package is found by its name. */
const ENTRIES = `import { open } from '@keyhush/client/instant'
import { fakeMap } from '@keyhush/client/testing'
export const entries = [
  async servers => {
    const map = await open({ servers })
    return await map.getText('otter').finally(() => map.close())
  },
  () => fakeMap({ otter: 'river' }).getText('otter'),
]
`
const MODULES = ['probe', 'entries', 'servers']
const PROGRAM = `import { open } from '@keyhush/client'
import { probe } from './probe.mjs'
import { servers } from './servers.mjs'
`
const IN_PAGE = `${PROGRAM}
probe(open, servers).then(said => { document.title = said }, error => { document.title = 'failed: ' + error })
`
const page = (script: string) => `<!doctype html><title></title><link rel="icon" href="data:,">${script}`
const MODULE_PAGE = page('<script type="module" src="/page.js"></script>')
const STRICT = "default-src 'none'; img-src data:; worker-src 'self'; connect-src *; script-src 'self'"

/** The folder with node_modules in which all setups are, and the two servers that they ask. */
interface App {
  readonly path: string
  readonly urls: readonly string[]
  /** Runs a command of a package, or an executable; resolves to what it printed. */
  run(command: string, ...args: string[]): Promise<string>
  /** Starts a command that serves until the end; resolves to its URL. */
  serve(command: string, ...args: string[]): Promise<string>
  /** The title of a page once it has looked up; serves files of this folder, with this policy. */
  titleOf(folder: string, policy?: string): Promise<string>
  titleAt(url: string): Promise<string>
  /** The status that a page with a form shows for each key, one after the other. */
  askAt(url: string, keys: readonly string[]): Promise<string[]>
}

const lastLine = (text: string) => text.trim().split('\n').at(-1)!

/** Each returns what its app printed: EXPECTED, if all is well. */
const setups: Record<string, (app: App) => Promise<string>> = {
  'Node, import': async app => lastLine(await app.run('node', 'program.mjs')),

  Bun: async app => lastLine(await app.run('bun', 'run', 'program.mjs')),

  Deno: async app =>
    lastLine(await app.run('deno', 'run', '--allow-all', '--no-lock', '--node-modules-dir=manual', 'program.mjs')),

  'esbuild for browsers, in parts': async app => await app.titleOf(await esbuilt(app)),

  "a strict policy with 'wasm-unsafe-eval'": async app =>
    await app.titleOf(await esbuilt(app), `${STRICT} 'wasm-unsafe-eval'`),

  "a strict policy without 'wasm-unsafe-eval': said so": async app => {
    const said = await app.titleOf(await esbuilt(app), STRICT)
    return /UnsupportedError: .*wasm-unsafe-eval/.test(said) ? EXPECTED : said
  },

  'Vite, built': async ({ run, path, titleOf }) => {
    await vitePage(path)
    await run('vite', 'build', 'vite', '--outDir', '../out-vite', '--logLevel', 'error')
    return await titleOf('out-vite')
  },

  'Vite, developing': async ({ serve, path, titleAt }) => {
    await vitePage(path)
    return await titleAt(await serve('vite', 'vite', '--port', '0', '--host', '127.0.0.1'))
  },

  'webpack 5': async ({ run, path, titleOf }) => {
    await write(path, {
      'page.mjs': IN_PAGE,
      'webpack.cjs': `require('webpack')({ mode: 'production', entry: './page.mjs', output: { path: __dirname + '/out-webpack' } }, (error, stats) => {
         if (error ?? stats.hasErrors()) throw error ?? new Error(stats.toString())
       })`,
      'out-webpack/index.html': page('<script src="/main.js"></script>'),
    })
    await run('node', 'webpack.cjs')
    return await titleOf('out-webpack')
  },

  'no bundler, one file': async ({ path, titleOf }) => {
    await oneFile(path, { 'page.js': IN_PAGE.replace('@keyhush/client', './keyhush.js') })
    return await titleOf('out-file', `${STRICT} 'wasm-unsafe-eval'`)
  },

  'a module worker': async ({ path, titleOf }) => {
    const program = PROGRAM.replace('@keyhush/client', './keyhush.js')
    await oneFile(path, {
      'worker.js': `${program}probe(open, servers).then(postMessage, error => postMessage('failed: ' + error))`,
      'page.js': `new Worker('/worker.js', { type: 'module' }).onmessage = ({ data }) => { document.title = data }`,
    })
    return await titleOf('out-file')
  },

  'a service worker': async ({ path, titleOf }) => {
    const program = PROGRAM.replace('@keyhush/client', './keyhush.js')
    await oneFile(path, {
      'service.js': `${program}addEventListener('activate', event => event.waitUntil(clients.claim()))
       addEventListener('fetch', event => {
         if (event.request.url.endsWith('/ask')) event.respondWith(probe(open, servers).then(said => new Response(said), error => new Response('failed: ' + error)))
       })`,
      'page.js': `const controlled = new Promise(resolve => { navigator.serviceWorker.oncontrollerchange = resolve })
       await navigator.serviceWorker.register('/service.js', { type: 'module' })
       await controlled
       document.title = await (await fetch('/ask')).text()`,
    })
    return await titleOf('out-file')
  },

  'Next, server and client, developing under StrictMode': async ({ path, serve, titleAt }) => {
    await nextApp(path)
    return both(await titleAt(await serve('next', 'dev', 'next', '--port', '0', '--hostname', '127.0.0.1')))
  },

  'Next, server and client, built': async ({ path, run, serve, titleAt }) => {
    await nextApp(path)
    await run('next', 'build', 'next')
    return both(await titleAt(await serve('next', 'start', 'next', '--port', '0', '--hostname', '127.0.0.1')))
  },

  'Next, the example with a hook, built': async ({ path, run, serve, askAt }) => {
    const { servers, publisherKey, close } = await startServers({ otter: 'river' })
    try {
      await cp(join(root, 'demo/examples/next'), join(path, 'next-example'), { recursive: true })
      const lines = Object.entries({ servers, publisherKey }).map(
        ([name, value]) => `export const ${name} = ${JSON.stringify(value)}\n`,
      )
      await write(path, { 'next-example/servers.js': lines.join(''), 'next-example/next.config.mjs': nextConfig(path) })
      await run('next', 'build', 'next-example')
      const url = await serve('next', 'start', 'next-example', '--port', '0', '--hostname', '127.0.0.1')
      const said = (await askAt(url, ['otter', 'auk'])).join(' ')
      return said === 'Yes, it is. No, and that is proved.' ? EXPECTED : said
    } finally {
      await close()
    }
  },

  'Vitest with jsdom': async ({ path, run }) => {
    await write(path, { 'vitest/app.test.mjs': testOf(`import { expect, test } from 'vitest'\n`, '../') })
    await run('vitest', 'run', '--root', 'vitest', '--environment', 'jsdom', '--globals', 'false')
    return EXPECTED
  },

  'Jest, modules': app => jestModules(app, 'jest', testOf('', '../')),

  'Jest, with servers of its own': app =>
    jestModules(
      app,
      'jest-servers',
      `import { startServers } from '@keyhush/server/testing'
       import { open } from '@keyhush/client'
       test('looks up', async () => {
         const { servers, publisherKey, close } = await startServers({ otter: 'river' })
         const map = await open({ servers, publisherKey, mode: 'full' })
         expect(await map.getText('otter')).toBe('river')
         await map.close()
         await close()
       })`,
    ),

  'Jest, CommonJS': async ({ path, run }) => {
    const sources = MODULES.map(async name => {
      const module = await readFile(join(path, `${name}.mjs`), 'utf8')
      return [`jest-cjs/${name}.js`, module.replaceAll('.mjs', '.js')] as const
    })
    await write(path, {
      ...Object.fromEntries(await Promise.all(sources)),
      'jest-cjs/transform.cjs': `const { transformSync } = require('esbuild')
        exports.process = (source, file) => transformSync(source, { format: 'cjs', platform: 'node', sourcefile: file, supported: { 'dynamic-import': false } })`,
      'jest-cjs/app.test.js': testOf('', './').replaceAll('.mjs', '.js'),
      'jest-cjs/jest.config.json': JSON.stringify({
        testMatch: ['**/*.test.js'],
        transform: { '\\.js$': '<rootDir>/transform.cjs' },
        transformIgnorePatterns: [],
      }),
    })
    await run('node', 'node_modules/jest/bin/jest.js', '--config', 'jest-cjs/jest.config.json')
    return EXPECTED
  },
}

async function jestModules({ path, run }: App, folder: string, test: string): Promise<string> {
  const config = `${folder}/jest.config.json`
  await write(path, {
    [`${folder}/app.test.mjs`]: test,
    [config]: '{ "testMatch": ["**/*.test.mjs"], "transform": {} }',
  })
  await run('node', '--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--config', config)
  return EXPECTED
}

/** The folder of a page in parts. */
async function esbuilt({ path, run }: App): Promise<string> {
  await write(path, { 'page.mjs': IN_PAGE, 'out-esbuild/index.html': MODULE_PAGE })
  const options = ['--bundle', '--minify', '--splitting', '--format=esm', '--outdir=out-esbuild']
  await run('esbuild', 'page.mjs', ...options)
  return 'out-esbuild'
}

async function vitePage(path: string): Promise<void> {
  await write(path, { 'vite/page.js': IN_PAGE, 'vite/index.html': MODULE_PAGE })
  await copyModules(path, 'vite')
}

/** The package's one file, the probe, and these files. */
async function oneFile(path: string, files: Record<string, string>): Promise<void> {
  const page = { 'entries.mjs': 'export const entries = []', 'index.html': MODULE_PAGE }
  await mkdir(join(path, 'out-file'), { recursive: true })
  await cp(join(path, 'node_modules/@keyhush/client/dist/keyhush.js'), join(path, 'out-file/keyhush.js'))
  await copyModules(path, 'out-file')
  await write(join(path, 'out-file'), { ...page, ...files })
}

async function copyModules(path: string, folder: string): Promise<void> {
  for (const name of MODULES) await cp(join(path, `${name}.mjs`), join(path, folder, `${name}.mjs`))
}

/** A page whose server component looks up while it renders, and whose client component does afterwards. */
async function nextApp(path: string): Promise<void> {
  await write(path, {
    'next/next.config.mjs': nextConfig(path),
    'next/app/layout.jsx': `export default ({ children }) => <html lang="en"><body>{children}</body></html>`,
    'next/app/page.jsx': `${PROGRAM}import { Client } from './client'
     export const dynamic = 'force-dynamic'
     export default async function Page() { return <Client server={await probe(open, servers)} /> }`,
    'next/app/client.jsx': `'use client'
     import { useEffect } from 'react'
     ${PROGRAM}
     export function Client({ server }) {
       useEffect(() => { probe(open, servers).then(said => { document.title = server + '|' + said }, error => { document.title = 'failed: ' + error }) }, [server])
       return <p>{server}</p>
     }`,
  })
  await copyModules(path, 'next/app')
}

const nextConfig = (path: string) =>
  `export default { reactStrictMode: true, turbopack: { root: ${JSON.stringify(path)} } }`

const both = (title: string) => (title === `${EXPECTED}|${EXPECTED}` ? EXPECTED : title)

const testOf = (head: string, up: string) =>
  `${head}${PROGRAM.replaceAll('./', up)}test('looks up', async () => { expect(await probe(open, servers)).toBe(${JSON.stringify(EXPECTED)}) }, 60_000)\n`

/** Runs the setups whose names contain one of `wanted`. Returns the exit code. */
export async function matrix(wanted: readonly string[]): Promise<number> {
  const folder = await temporaryFolder()
  const servers = await startPair({ format: 'csv', content: 'key,value\notter,river\nheron,shore\n' })
  const browser = await launchBrowser('chromium')
  const serving: ChildProcess[] = []
  const path = join(folder.path, 'app')
  try {
    await mkdir(path)
    for (const name of ['package.json', 'package-lock.json'])
      await cp(join(root, 'tests/package/matrix', name), join(path, name))
    const runAt = async (cwd: string, command: string, ...args: string[]) => {
      const installed = join(path, 'node_modules/.bin', command)
      return await runWith(env, cwd, existsSync(installed) ? installed : command, ...args)
    }
    console.log('Installing what apps are built with, and the tarballs')
    const tarballs = await pack(workspaces, folder.path)
    await runAt(path, 'npm', 'install', '--no-save', ...tarballs)
    await write(path, {
      'probe.mjs': PROBE,
      'entries.mjs': ENTRIES,
      'servers.mjs': `export const servers = ${JSON.stringify(servers.urls)}\n`,
      'program.mjs': `${PROGRAM}console.log(await probe(open, servers))\n`,
    })

    /** What `work` finds in a tab of its own. */
    const inTab = async <T>(url: string, work: (tab: Page) => Promise<T>) => {
      const context = await browser.createBrowserContext()
      try {
        const tab = await context.newPage()
        await tab.goto(url, { timeout: 120_000 })
        return await work(tab)
      } finally {
        await context.close()
      }
    }
    const patiently = { timeout: 60_000, polling: 100 }
    const titleAt = (url: string) =>
      inTab(url, async tab => {
        const isThere = () => /river|failed/.test(document.title) && document.title
        return (await (await tab.waitForFunction(isThere, patiently)).jsonValue()) as string
      })
    const askAt = (url: string, keys: readonly string[]) =>
      inTab(url, async tab => {
        const said: string[] = []
        const changed = (before: string) => {
          const text = document.querySelector('[role=status]')?.textContent
          return text !== before && text
        }
        for (const key of keys) {
          await tab.locator('[name=key]').fill(key)
          await tab.locator('button').click()
          const status = await tab.waitForFunction(changed, patiently, said.at(-1) ?? '')
          said.push((await status.jsonValue()) as string)
        }
        return said
      })
    const app: App = {
      ...{ path, urls: servers.urls, titleAt, askAt },
      run: (command, ...args) => runAt(path, command, ...args),
      async serve(command, ...args) {
        const child = spawn(join(path, 'node_modules/.bin', command), args, {
          ...{ cwd: path, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
        })
        serving.push(child)
        return await new Promise((resolve, reject) => {
          let printed = ''
          for (const stream of [child.stdout!, child.stderr!]) {
            stream.setEncoding('utf8').on('data', text => {
              printed += text
              // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
              const url = /http:\/\/127\.0\.0\.1:\d+/.exec(printed.replace(/\x1b\[\d+m/g, ''))
              if (url !== null) resolve(url[0])
            })
          }
          child.once('exit', () => reject(new Error(`${command} ended:\n${printed}`)))
        })
      },
      async titleOf(folder, policy) {
        const headers = policy === undefined ? {} : { 'content-security-policy': policy }
        const site = await serveFiles(join(path, folder), headers)
        return await titleAt(`${site.url}/`).finally(() => site.close())
      },
    }

    let failed = 0
    const isWanted = (name: string) =>
      wanted.length === 0 || wanted.some(text => name.toLowerCase().includes(text.toLowerCase()))
    for (const [name, setup] of Object.entries(setups).filter(([name]) => isWanted(name))) {
      const said = await setup(app).catch(error => String(error.message ?? error))
      if (said !== EXPECTED) failed += 1
      console.log(said === EXPECTED ? `  works   ${name}` : `  FAILS   ${name}\n${said}`)
    }
    console.log(failed === 0 ? 'All of them work.' : `${failed} fail.`)
    return failed === 0 ? 0 : 1
  } finally {
    for (const child of serving) if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL')
    await browser.close()
    await servers.close()
    await folder.remove()
  }
}
