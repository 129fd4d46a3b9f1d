// `npm run matrix -- [SETUP…]`: the packages as published, in bundlers, runtimes and frameworks. Each folder of matrix/ has apps that look up
// in every mode; its package.json names its setups. They run in a copy outside of this repository, where the tarballs are
// installed. To add one: a folder, and `npm install --package-lock-only --ignore-scripts` in matrix/.
// (package.all.test.ts has CommonJS in Node, esbuild for Node, and TypeScript.)

import { spawn } from 'node:child_process'
import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { startServers } from '@keyhush/server/testing'
import type { Browser, Page } from 'puppeteer-core'
import { launchBrowser } from '../../tools/browsers.mjs'
import { temporaryFolder } from '../support/servers.js'
import { serveFiles } from '../support/web.js'
import { env as npm, pack, root, runWith } from './packed.js'

const workspaces = ['packages/protocol', 'packages/wasm', 'packages/client', 'server']
const { NODE_ENV: _, ...inherited } = npm // of what compiles this; apps choose their own

/** As the `setups` of a folder's package.json have it. Commands are the shell's, in that folder. */
interface Setup {
  /** has to end well, first of all */
  readonly run?: string
  /** its last line has to be `works` */
  readonly prints?: string
  /** a page, from the folder. Its title has to become `works` */
  readonly page?: string
  /** serves a page until it is stopped, and prints the URL */
  readonly serve?: string
  /** the content security policy of `page` */
  readonly policy?: string
  /** a pattern of what the title becomes instead */
  readonly title?: string
  /** keys, and the status that the page's form shows for each, instead */
  readonly form?: Readonly<Record<string, string>>
}

/** Runs the setups whose names contain one of `wanted`. Returns the exit code. */
export async function matrix(wanted: readonly string[]): Promise<number> {
  const folder = await temporaryFolder()
  const servers = await startServers({ otter: 'river', heron: 'shore' })
  const browser = await launchBrowser('chromium')
  try {
    const apps = join(folder.path, 'apps')
    const isOurs = (source: string) => !source.includes('node_modules')
    await cp(join(root, 'tests/package/matrix'), apps, { recursive: true, filter: isOurs })
    await cp(join(root, 'demo/examples'), join(apps, 'examples'), { recursive: true, filter: isOurs })
    const found = Object.entries({ servers: servers.servers, publisherKey: servers.publisherKey })
    const lines = found.map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}\n`)
    await writeFile(join(apps, 'servers.js'), lines.join(''))
    console.log('Installing what apps are built with, and the tarballs')
    await runWith(npm, apps, 'npm', 'install', '--no-save', ...(await pack(workspaces, folder.path)))

    let failed = 0
    const isWanted = (name: string) =>
      wanted.length === 0 || wanted.some(text => name.toLowerCase().includes(text.toLowerCase()))
    for (const [name, app, setup] of (await setupsIn(apps)).filter(([name]) => isWanted(name))) {
      const fault = await faultOf(setup, apps, app, browser)
      if (fault !== undefined) failed += 1
      console.log(fault === undefined ? `  works   ${name}` : `  FAILS   ${name}\n${fault}`)
    }
    console.log(failed === 0 ? 'All of them work.' : `${failed} fail.`)
    return failed === 0 ? 0 : 1
  } finally {
    await browser.close()
    await servers.close()
    await folder.remove()
  }
}

/** Every setup, with its folder. */
async function setupsIn(apps: string): Promise<(readonly [name: string, app: string, setup: Setup])[]> {
  const all: (readonly [string, string, Setup])[] = []
  for (const app of (await readdir(apps)).sort()) {
    const text = await readFile(join(apps, app, 'package.json'), 'utf8').catch(() => undefined)
    const { setups = {} } = JSON.parse(text ?? '{}') as { setups?: Record<string, Setup> }
    for (const [name, setup] of Object.entries(setups)) all.push([name, app, setup])
  }
  return all
}

/** What went wrong; undefined: nothing. */
async function faultOf(setup: Setup, apps: string, app: string, browser: Browser): Promise<string | undefined> {
  const cwd = join(apps, app)
  const env = {
    ...{ ...inherited, PATH: `${join(apps, 'node_modules/.bin')}${delimiter}${process.env['PATH']}` },
    ...{ NEXT_TELEMETRY_DISABLED: '1', DENO_NO_UPDATE_CHECK: '1' },
  }
  const run = (command: string) => runWith(env, cwd, 'sh', '-c', command)
  const look = async (url: string) => await inTab(browser, url, tab => faultOn(tab, setup))
  try {
    if (setup.run !== undefined) await run(setup.run)
    if (setup.prints !== undefined) {
      const printed = await run(setup.prints)
      if (printed.trim().split('\n').at(-1) !== 'works') return `expected a last line of works, got\n${printed}`
    }
    if (setup.serve !== undefined) return await whileServed(setup.serve, cwd, env, look)
    if (setup.page === undefined) return undefined
    const site = await serveFiles(apps, setup.policy === undefined ? {} : { 'content-security-policy': setup.policy })
    return await look(`${site.url}/${app}/${setup.page}`).finally(() => site.close())
  } catch (error) {
    return String((error as Error).message ?? error)
  }
}

/** Starts a command that serves until the end of `work`, which is given its URL. */
async function whileServed<T>(
  command: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
  work: (url: string) => Promise<T>,
): Promise<T> {
  const child = spawn('sh', ['-c', command], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  try {
    const url = await new Promise<string>((resolve, reject) => {
      let printed = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', text => {
          printed += text
          // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
          const url = /http:\/\/127\.0\.0\.1:\d+/.exec(printed.replace(/\x1b\[\d+m/g, ''))
          if (url !== null) resolve(url[0])
        })
      }
      child.once('exit', () => reject(new Error(`${command} ended:\n${printed}`)))
    })
    return await work(url)
  } finally {
    if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL')
  }
}

/** What `work` finds in a tab of its own. */
async function inTab<T>(browser: Browser, url: string, work: (tab: Page) => Promise<T>): Promise<T> {
  const context = await browser.createBrowserContext()
  try {
    const tab = await context.newPage()
    tab.setDefaultTimeout(120_000) // other tests run meanwhile
    await tab.goto(url)
    return await work(tab)
  } finally {
    await context.close()
  }
}

const POLLED = { polling: 100 }

/** Of a page that is there; undefined: none. */
async function faultOn(tab: Page, { title = '^works$', form = {} }: Setup): Promise<string | undefined> {
  let before = ''
  for (const [key, expected] of Object.entries(form)) {
    await tab.locator('[name=key]').fill(key)
    await tab.locator('button').click()
    const changed = (before: string) => {
      const text = document.querySelector('[role=status]')?.textContent
      return text !== before && text
    }
    before = (await (await tab.waitForFunction(changed, POLLED, before)).jsonValue()) as string
    if (before !== expected) return `expected ${expected} of ${key}, got ${before}`
  }
  if (Object.keys(form).length > 0) return undefined
  const isThere = () => /^(works|failed)/.test(document.title) && document.title
  const said = (await (await tab.waitForFunction(isThere, POLLED)).jsonValue()) as string
  return new RegExp(title).test(said) ? undefined : `expected a title like ${title}, got ${said}`
}
