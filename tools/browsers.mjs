// Finds or installs Chromium and Firefox for tests, and starts them headless. Finds the programs for webkit.mjs.
//
// It tries in this order: an environment variable, the system's own, Debian's packages (as root), the driver's download into
// .tools/browsers. If all fail, the error names all four, and tests that need the browser are skipped with this reason.
// `node tools/browsers.mjs [NAME…]` prints what it finds.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { ask, root, run } from './steps.mjs'

const kinds = {
  chromium: {
    variable: 'KEYHUSH_CHROMIUM',
    commands: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    macApps: ['Chromium.app/Contents/MacOS/Chromium', 'Google Chrome.app/Contents/MacOS/Google Chrome'],
    debianPackage: 'chromium',
    download: 'chrome',
  },
  firefox: {
    variable: 'KEYHUSH_FIREFOX',
    commands: ['firefox', 'firefox-esr'],
    macApps: ['Firefox.app/Contents/MacOS/firefox'],
    debianPackage: 'firefox-esr',
    download: 'firefox',
  },
  // For webkit.mjs: WebKit's driver, Python with WebKit in it, and their screen.
  webkit: {
    variable: 'KEYHUSH_WEBKIT_DRIVER',
    commands: ['WebKitWebDriver'],
    debianPackage: 'webkit2gtk-driver',
    answers: '--help',
  },
  'web view': {
    variable: 'KEYHUSH_WEB_VIEW_PYTHON',
    commands: ['python3'],
    debianPackage: 'python3-gi gir1.2-webkit2-4.1',
    answers: ['-c', "import gi; gi.require_version('WebKit2', '4.1')"],
  },
  xvfb: { variable: 'KEYHUSH_XVFB', commands: ['Xvfb'], debianPackage: 'xvfb', answers: '-help' },
}

const isRoot = process.getuid?.() === 0

/** in tests: the limit of time for each wait (vitest.config.mjs) */
const WAIT_MS = process.env.KEYHUSH_WAIT_MILLISECONDS && Number(process.env.KEYHUSH_WAIT_MILLISECONDS)

const patience = (protocolTimeout = WAIT_MS && 4 * WAIT_MS) =>
  protocolTimeout === undefined ? {} : { protocolTimeout }

/**
 * The path of an executable: one of `kinds`.
 * @param {'chromium' | 'firefox' | 'webkit' | 'web view' | 'xvfb'} name
 * @returns {Promise<string>}
 */
export async function findBrowser(name) {
  const kind = kinds[name]
  const named = process.env[kind.variable]
  if (named) {
    if (existsSync(named)) return named
    throw new Error(`${kind.variable} names ${named}, which does not exist`)
  }
  const reasons = []
  for (const way of [systemBrowser, debianBrowser, downloadedBrowser]) {
    try {
      return await way(kind)
    } catch (error) {
      reasons.push(error.message)
    }
  }
  const [noSystem, noDebian, noDownload] = reasons
  throw new Error(
    `No ${name} for the tests. Any of these would do:\n` +
      `  1. ${kind.variable}=/path/to/${name} in the environment (not set)\n` +
      `  2. ${kind.commands.join(', ')} on the PATH${process.platform === 'darwin' ? ' or in Applications' : ''} (${noSystem})\n` +
      `  3. Debian's package: apt-get install ${kind.debianPackage} (${noDebian})` +
      (kind.download === undefined
        ? ''
        : `\n  4. the driver's own download: npx @puppeteer/browsers install ${kind.download}@stable (${noDownload})`),
  )
}

function systemBrowser(kind) {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const candidates = kind.commands.flatMap(command => folders.map(folder => join(folder, command)))
  if (process.platform === 'darwin') {
    for (const folder of ['/Applications', join(process.env.HOME ?? '', 'Applications')]) {
      candidates.push(...(kind.macApps ?? []).map(app => join(folder, app)))
    }
  }
  // Some distributions have a stub that only says how to install the browser: it prints no version.
  const found = candidates.find(
    path => existsSync(path) && ask(path, [kind.answers ?? '--version'].flat()) !== undefined,
  )
  if (found === undefined) throw new Error('none found')
  return found
}

async function debianBrowser(kind) {
  if (ask('apt-get', ['--version']) === undefined) throw new Error('no apt-get here')
  if (!isRoot) throw new Error('not root')
  const options = {
    env: { DEBIAN_FRONTEND: 'noninteractive' },
  }
  const wait = ['-o', 'DPkg::Lock::Timeout=300'] // another process may hold the lock
  await run('apt-get', [...wait, 'update'], { ...options, mayFail: true })
  const { code, output } = await run(
    'apt-get',
    [...wait, 'install', '--yes', '--no-install-recommends', ...kind.debianPackage.split(' ')],
    { ...options, mayFail: true },
  )
  if (code !== 0) throw new Error(`apt-get failed: ${output.trim().split('\n').at(-1)}`)
  return systemBrowser(kind)
}

async function downloadedBrowser(kind) {
  if (kind.download === undefined) throw new Error('there is none')
  const { computeExecutablePath, detectBrowserPlatform, getInstalledBrowsers, install, resolveBuildId } = await import(
    '@puppeteer/browsers'
  )
  const cacheDir = join(root, '.tools', 'browsers')
  const here = (await getInstalledBrowsers({ cacheDir })).find(one => one.browser === kind.download)
  if (here) return here.executablePath
  const platform = detectBrowserPlatform()
  const buildId = await resolveBuildId(kind.download, platform, 'stable')
  await install({ browser: kind.download, buildId, cacheDir })
  return computeExecutablePath({ browser: kind.download, buildId, cacheDir })
}

/** Leads to this machine, but browsers do not know: its pages are no secure contexts. */
export const OTHER_HOST = 'another-host.test'

/**
 * Starts `chromium` or `firefox` headless. Returns puppeteer-core's Browser, which the caller closes.
 * - `profile`: a folder, which stays; without it, a fresh profile that is removed at the end
 * - `preferences`: Firefox's
 * - `protocolTimeout`: milliseconds for a call into a page; 0: no limit
 * - `hosts`: further names that lead to this machine
 * - `extensions`: Chromium takes extensions (`browser.installExtension`); Firefox always does
 * - `small`: Chromium saves memory as on a phone that has little
 * - `unwatched`: Chromium does not report requests to the driver, so that each takes a third less time
 *
 * @param {'chromium' | 'firefox'} name
 * @param {{
 *   profile?: string, preferences?: Readonly<Record<string, unknown>>, hosts?: readonly string[], extensions?: boolean,
 *   protocolTimeout?: number, small?: boolean, unwatched?: boolean
 * }} options
 * @returns {Promise<import('puppeteer-core').Browser>}
 */
export async function launchBrowser(
  name,
  {
    profile: userDataDir,
    preferences = {},
    hosts = [],
    extensions = false,
    protocolTimeout,
    small = false,
    unwatched = false,
  } = {},
) {
  const executablePath = await findBrowser(name)
  // A killed browser leaves files in its temporary folder.
  const temporary = mkdtempSync(join(tmpdir(), 'browser-'))
  const remove = () => rmSync(temporary, { recursive: true, force: true, maxRetries: 5 })
  try {
    const env = { ...process.env, TMPDIR: temporary }
    const options = { executablePath, headless: true, env, networkEnabled: !unwatched }
    const profile = userDataDir && { userDataDir }
    const more = { preferences, extensions, small, hosts: [OTHER_HOST, ...hosts] }
    const browser = await launch(name, { ...options, ...profile, ...patience(protocolTimeout) }, more)
    browser.on('targetcreated', async target => {
      const page = await target.page().catch(() => null) // the page may be gone already
      page?.setDefaultTimeout(WAIT_MS ?? 30_000)
    })
    browser.process().once('exit', remove)
    return browser
  } catch (error) {
    remove()
    throw error
  }
}

async function launch(name, options, { preferences, extensions, small, hosts }) {
  const { default: puppeteer } = await import('puppeteer-core')
  if (name === 'firefox') {
    return puppeteer.launch({
      ...options,
      browser: 'firefox',
      extraPrefsFirefox: { 'network.dns.localDomains': hosts.join(), ...preferences },
    })
  }
  return puppeteer.launch({
    ...options,
    browser: 'chrome',
    ...(extensions && { enableExtensions: true, pipe: true }),
    args: [
      ...(isRoot ? ['--no-sandbox'] : []),
      '--disable-gpu',
      '--disable-dev-shm-usage', // it is small in containers
      // Only the page under test uses the network.
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
      `--host-resolver-rules=${hosts.map(host => `MAP ${host} 127.0.0.1`).join()}`,
      ...(small ? ['--enable-low-end-device-mode'] : []),
      ...(extensions ? ['--enable-unsafe-extension-debugging'] : []),
    ],
  })
}

if (process.argv[1] === import.meta.filename) {
  const [, , ...names] = process.argv
  for (const name of names.length > 0 ? names : Object.keys(kinds)) console.log(`${name}: ${await findBrowser(name)}`)
}
