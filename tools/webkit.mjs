// Starts WebKit for tests: Debian's WebKitGTK with its own WebDriver, on an invisible screen (Xvfb). It treats pages, windows and
// databases as Safari does. Or a web view, as apps with Capacitor have it.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findBrowser } from './browsers.mjs'

const SCRIPT_MILLISECONDS = 120_000

/**
 * @typedef {object} WebKitWindow
 * @property {(url: string) => Promise<void>} goto
 * @property {() => Promise<void>} reload
 * @property {() => Promise<void>} back
 * @property {<P extends unknown[], R>(work: (...parameters: P) => R | Promise<R>, ...parameters: P) => Promise<R>} evaluate runs a
 *   function in the page; parameters and result are JSON
 */

/**
 * A window whose page has a process of its own. `signal` stops the process, as iOS does to a page in the background, or lets it go on.
 * @typedef {WebKitWindow & { signal(name: 'SIGSTOP' | 'SIGCONT'): void, kill(): Promise<void> }} OwnWindow
 */

/**
 * Commands go to its first window.
 * @typedef {WebKitWindow & { open(url: string): Promise<OwnWindow>, close(): Promise<void> }} WebKit
 */

/**
 * Starts WebKit with a fresh profile. The caller closes it.
 * @returns {Promise<WebKit>}
 */
export async function launchWebKit() {
  const driverPath = await findBrowser('webkit')
  const { start, end } = await screen()
  try {
    const port = await freePort()
    const driver = start(driverPath, [`--port=${port}`, '--host=127.0.0.1'], { stdio: 'ignore' })
    const session = await Promise.race([newSession(`http://127.0.0.1:${port}`, driver.pid), ended(driver, driverPath)])
    return {
      ...session,
      async close() {
        await session.close().catch(() => {})
        end()
      },
    }
  } catch (error) {
    end()
    throw error
  }
}

/**
 * Opens capacitor://localhost/index.html in a web view, which finds its files in `folder`. Resolves with the first text that the page
 * posts to the message handler `test`.
 */
export async function postedInWebView(folder) {
  const python = await findBrowser('web view')
  const { start, end } = await screen()
  try {
    const program = join(import.meta.dirname, 'web-view.py')
    const view = start(python, [program, folder], { stdio: ['ignore', 'pipe', 'ignore'] })
    const [text] = await Promise.race([once(createInterface({ input: view.stdout }), 'line'), ended(view, program)])
    return text
  } finally {
    end()
  }
}

/** An invisible screen. `start` starts programs on it, and `end` ends them all. */
async function screen() {
  const path = await findBrowser('xvfb')
  const children = []
  const kill = () => {
    for (const child of children) {
      try {
        process.kill(-child.pid, 'SIGKILL') // and its children
      } catch {} // it has gone
    }
  }
  process.once('exit', kill)
  const env = { ...process.env, GDK_BACKEND: 'x11', LIBGL_ALWAYS_SOFTWARE: '1' }
  const start = (path, args, options) => {
    const child = spawn(path, args, { detached: true, env, ...options })
    children.push(child)
    return child
  }
  const end = () => {
    process.off('exit', kill)
    kill()
  }
  try {
    const xvfb = start(path, ['-displayfd', '3', '-screen', '0', '1440x900x24', '-nolisten', 'tcp'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    const [display] = await Promise.race([once(xvfb.stdio[3], 'data'), ended(xvfb, path)])
    env.DISPLAY = `:${String(display).trim()}`
    return { start, end }
  } catch (error) {
    end()
    throw error
  }
}

async function ended(child, path) {
  const [code] = await once(child, 'exit')
  throw new Error(`${path} ended with ${code}`)
}

/** The processes of a group that run pages. */
async function pageProcesses(group) {
  const { stdout } = await promisify(execFile)('pgrep', ['-g', group, '-f', 'WebKitWebProcess'])
  return stdout.trim().split('\n').map(Number)
}

async function freePort() {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address()
  await once(server.close(), 'close')
  return port
}

async function newSession(driver, group) {
  const call = async (method, path, body) => {
    const response = await fetch(driver + path, { method, ...(body && { body: JSON.stringify(body) }) })
    const { value } = await response.json()
    if (!response.ok) throw new Error(`WebKit: ${value.error}: ${value.message}`)
    return value
  }
  for (;;) {
    try {
      await call('GET', '/status')
      break
    } catch (error) {
      if (error.cause?.code !== 'ECONNREFUSED') throw error
      await pause(20) // it does not report when it listens
    }
  }
  const { sessionId } = await call('POST', '/session', { capabilities: {} })
  const at = `/session/${sessionId}`
  await call('POST', `${at}/timeouts`, { script: SCRIPT_MILLISECONDS })
  const commands = {
    goto: url => call('POST', `${at}/url`, { url }),
    reload: () => call('POST', `${at}/refresh`, {}),
    back: () => call('POST', `${at}/back`, {}),
    async evaluate(work, ...parameters) {
      const script = `const done = arguments[arguments.length - 1]
        Promise.resolve().then(() => (${work})(...[...arguments].slice(0, -1))).then(
          value => done({ value }), error => done({ error: String(error) + '\\n' + (error && error.stack) }))`
      const { value, error } = await call('POST', `${at}/execute/async`, { script, args: parameters })
      if (error !== undefined) throw new Error(error)
      return value
    },
  }
  /** Commands go to one window, the last that was named. */
  const main = await call('GET', `${at}/window`)
  let current = main
  const switchTo = async handle => {
    if (handle !== current) await call('POST', `${at}/window`, { handle })
    current = handle
  }
  const inWindow = handle =>
    Object.fromEntries(
      Object.entries(commands).map(([name, command]) => [
        name,
        async (...given) => {
          await switchTo(handle)
          return await command(...given)
        },
      ]),
    )
  return {
    ...inWindow(main),
    async open(url) {
      await switchTo(main)
      const before = await pageProcesses(group)
      const { handle } = await call('POST', `${at}/window/new`, { type: 'window' })
      const window = inWindow(handle)
      await window.goto(url)
      const [pid] = (await pageProcesses(group)).filter(each => !before.includes(each))
      return {
        ...window,
        signal: name => process.kill(pid, name),
        async kill() {
          process.kill(pid, 'SIGCONT')
          await switchTo(handle)
          process.kill(pid, 'SIGSTOP') // a page that crashes in its window would end the session
          await call('DELETE', `${at}/window`)
          process.kill(pid, 'SIGKILL')
          await switchTo(main)
        },
      }
    },
    close: () => call('DELETE', at),
  }
}
