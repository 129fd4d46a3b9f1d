// The examples in demo/examples run unchanged, except that addresses and key are filled in as `keyhush dev` prints them.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { cp, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { startServers, type TestServers } from '@keyhush/server/testing'
import type { Browser } from 'puppeteer-core'
import { build } from 'vite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { launchBrowser } from '../../tools/browsers.mjs'
import { needsBrowser } from '../support/browsers.js'
import { temporaryFolder } from '../support/servers.js'
import { type Site, serveFiles } from '../support/web.js'

const root = join(import.meta.dirname, '../..')

let both: TestServers
let directory: TestServers
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let site: Site
let browser: Browser

/** The examples and what is installed, side by side in one folder. */
const path = (name: string) => join(folder.path, name)

const CHROMIUM = await needsBrowser('chromium')
beforeAll(async () => {
  both = await startServers(join(root, 'demo/examples/passwords.txt'))
  directory = await startServers(join(root, 'demo/examples/key-directory/keys.csv'))
  folder = await temporaryFolder()
  await cp(join(root, 'demo/examples'), path('examples'), { recursive: true })
  await symlink(join(root, 'node_modules'), path('node_modules'))
  await writeFile(path('examples/servers.js'), printedBy(both))
  await cp(join(root, 'demo/examples/key-directory'), path('directory/verify'), { recursive: true })
  await writeFile(path('directory/servers.js'), printedBy(directory))
  for (const name of ['static', 'service-worker']) {
    await cp(join(root, 'packages/client/dist/keyhush.js'), path(`examples/${name}/keyhush.js`))
  }
  await writeFile(path('package.json'), '{ "type": "module" }')
  site = await serveFiles(folder.path)
  browser = await launchBrowser('chromium')
})
afterAll(async () => {
  await browser?.close()
  await site?.close()
  await folder?.remove()
  await both?.close()
  await directory?.close()
})

function printedBy({ servers, publisherKey }: TestServers): string {
  const printed = { servers, publisherKey }
  return Object.entries(printed)
    .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}\n`)
    .join('')
}

/** What the page says after a form was sent with this in its field. */
async function ask(at: string, name: string, typed: readonly string[]): Promise<string[]> {
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('pageerror', error => void errors.push(String(error)))
  await page.goto(site.url + at)
  const said: string[] = []
  for (const text of typed) {
    await page.$eval('[role=status]', status => {
      status.textContent = ''
    })
    await page.$eval(`[name=${name}]`, input => (input as HTMLInputElement).select())
    await page.type(`[name=${name}]`, text)
    await page.locator('button').click() // once it can be
    const status = await page.waitForFunction(() => document.querySelector('[role=status]')?.textContent)
    said.push((await status.jsonValue()) as string)
  }
  expect(errors).toEqual([])
  await page.close()
  return said
}

test('node: a script looks up and prints', CHROMIUM, async () => {
  const script = path('examples/node/lookup.js')
  const env = { ...process.env, STATE: path('state') }
  for (let run = 0; run < 2; run++) {
    const { stdout } = await promisify(execFile)(process.execPath, [script, 'letmein', 'LetMeIn'], { env })
    expect(stdout).toBe('letmein: known\nLetMeIn: not known\n')
  }
})

test('import-map: it names all that the SDK imports, also on demand', () => {
  const page = readFileSync(join(root, 'demo/examples/import-map/index.html'), 'utf8')
  const { imports } = JSON.parse(/<script type="importmap">([\s\S]*?)<\/script>/.exec(page)![1]!)
  const found = (name: string) => {
    const prefix = Object.keys(imports).find(key => (key.endsWith('/') ? name.startsWith(key) : name === key))
    return prefix && join(root, imports[prefix] + name.slice(prefix.length))
  }
  const files = [found('@keyhush/client')!]
  const missing = new Set<string>()
  for (const file of files) {
    const code = readFileSync(file, 'utf8').replace(/^\s*(\/\/|\*|\/\*).*$/gm, '')
    for (const [, name] of code.matchAll(/(?:\bfrom |\bimport\(|^import )'([@./\w-]+)'/gm)) {
      const next = name!.startsWith('.') ? join(dirname(file), name!) : found(name!)
      if (next === undefined) missing.add(name!)
      else if (!files.includes(next)) files.push(next)
    }
  }
  expect([...missing]).toEqual([])
  expect(files.length).toBeGreaterThan(100)
})

test('import-map: a page without a bundler looks up', CHROMIUM, async () => {
  const said = await ask('/examples/import-map/', 'key', ['dragon', 'wyvern'])
  expect(said).toEqual(['Yes, it is.', 'No, and that is proved.'])
})

test.each(['static', 'service-worker'])('%s: a page with one file of the package looks up', CHROMIUM, async name => {
  const said = await ask(`/examples/${name}/`, 'key', ['dragon', 'wyvern'])
  expect(said).toEqual(['Yes, it is.', 'No, and that is proved.'])
})

test('service-worker: woken, it notifies of changes, and the page shows all of them', CHROMIUM, async () => {
  const context = await browser.createBrowserContext()
  await context.overridePermissions(site.url, ['notifications'])
  const page = await context.newPage()
  const address = `${site.url}/examples/service-worker/`
  const workers = await page.createCDPSession()
  const registered = new Promise<string>(resolve => {
    workers.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const own = registrations.find(({ scopeURL }) => scopeURL === address)
      if (own !== undefined) resolve(own.registrationId)
    })
  })
  await workers.send('ServiceWorker.enable')
  await page.goto(address)
  const registrationId = await registered
  await page.type('[name=key]', 'letmein')
  await page.locator('[value=watch]').click()
  await page.waitForFunction(() => document.querySelector('[role=status]')?.textContent === 'You will be told.')
  const wake = () =>
    workers.send('ServiceWorker.dispatchPeriodicSyncEvent', { origin: site.url, registrationId, tag: 'watched' })
  const notified = () =>
    page.evaluate(async () => {
      const registration = await navigator.serviceWorker.ready
      return (await registration.getNotifications()).map(({ title }) => title)
    })
  await both.publish([{ op: 'add', key: 'something else', value: '' }])
  await wake()
  await both.publish([{ op: 'delete', key: 'letmein' }])
  await both.publish([{ op: 'add', key: 'letmein', value: '' }])
  await wake()
  await expect.poll(notified).toEqual(['What you watch has changed'])
  await page.reload()
  const said = await page.waitForFunction(() => {
    const all = [...document.querySelectorAll('li')].map(({ textContent }) => textContent)
    return all.length > 0 && all
  })
  expect(await said.jsonValue()).toEqual([
    expect.stringMatching(/^Version \d+: It is on the list now\.$/),
    expect.stringMatching(/^Version \d+: It is not on the list now\.$/),
  ])
  await context.close()
})

test('key-directory: a signature is checked as its README says', CHROMIUM, async () => {
  const readme = await readFile(join(root, 'demo/examples/README.md'), 'utf8')
  const [, message, signature] = /^node verify\.js ada '(.+)' (\S+)$/m.exec(readme)!
  const asked = async (...args: string[]) => {
    const script = path('directory/verify/verify.js')
    return await promisify(execFile)(process.execPath, [script, ...args]).then(
      ({ stdout }) => stdout,
      ({ stdout }) => stdout,
    )
  }
  expect(await asked('ada', message!, signature!)).toBe('ada has signed this.\n')
  expect(await asked('grace', message!, signature!)).toBe('grace has not signed this.\n')
  expect(await asked('mallory', message!, signature!)).toBe('There is nobody called mallory, and that is proved.\n')
})

test(
  'key-directory: an owner publishes a key, and hears of changes, also of those between two visits',
  CHROMIUM,
  async () => {
    const script = path('directory/verify/owner.js')
    const visit = async (work: (say: () => Promise<string>) => Promise<void>) => {
      const child = spawn(process.execPath, [script, 'alice'], {
        cwd: folder.path,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      await work(async () => (await lines.next()).value as string)
      child.kill()
      await once(child, 'exit')
    }
    /** The epoch of the mark, which is kept after a change is shown. */
    const kept = async () =>
      Number.parseInt((await readFile(join(folder.path, 'alice.mark'), 'utf8')).slice(42, 50), 16)
    const publish = (line: string) => directory.publish([JSON.parse(line) as Parameters<TestServers['publish']>[0][0]])
    let line = ''
    await visit(async say => {
      expect(await say()).toBe('The directory has no key.')
      const toPublish = await say()
      line = /: (\{.*\})$/.exec(toPublish)![1]!
      await publish(line)
      expect(await say()).toBe('Version 2: the directory has your key. The list of changes says so.')
      await expect.poll(kept).toBe(2)
    })
    const [own, other] = [line.replace('"add"', '"edit"'), 'x'.repeat(43)]
    await publish(JSON.stringify({ op: 'edit', key: 'alice', value: other }))
    await publish(own)
    await visit(async say => {
      expect(await say()).toBe('The directory has your key.')
      expect(await say()).toBe(`Version 3: the directory has another key, ${other}. The list of changes says so.`)
      expect(await say()).toBe('Version 4: the directory has your key. The list of changes says so.')
    })
  },
)

test('vite: a form refuses known passwords, and accepts a password that cannot be checked', CHROMIUM, async () => {
  const outDir = path('built')
  const vite = join(folder.path, 'examples/vite')
  await build({ root: vite, base: '/built/', configFile: false, logLevel: 'error', build: { outDir } })
  const said = await ask('/built/', 'password', ['iloveyou', 'iloveyou2'])
  expect(said[0]).toContain('Choose another.')
  expect(said[1]).toContain('Nobody is known to know this one.')
  both.misbehave(0, 'down')
  // A signed list that is downloaded by now answers without its servers; another one reports an error.
  const [away] = await ask('/built/', 'password', ['another'])
  expect(away).toMatch(/^(Nobody is known to know this one|It could not be checked \(network\))\.$/)
  both.misbehave(0, undefined)
})

test('capacitor: the bundled page looks up', CHROMIUM, async () => {
  const outDir = path('app')
  await build({
    ...{ root: join(folder.path, 'examples/capacitor'), base: '/app/', configFile: false, logLevel: 'error' },
    build: { outDir },
  })
  expect(await ask('/app/', 'key', ['dragon', 'wyvern'])).toEqual(['Yes, it is.', 'No, and that is proved.'])
})
