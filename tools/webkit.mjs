// Starts WebKit for tests: Debian's WebKitGTK with its own WebDriver, on an invisible screen (Xvfb). It treats pages, windows and
// databases as Safari does. `node tools/webkit.mjs` prints the programs that it finds.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { findBrowser } from './browsers.mjs'

const SCRIPT_MILLISECONDS = 120_000

/**
 * Starts WebKit with a fresh profile. The caller closes it.
 * @returns {Promise<import('./webkit.d.mts').WebKit>}
 */
export async function launchWebKit() {
  const driverPath = await findBrowser('webkit')
  const xvfbPath = await findBrowser('xvfb')
  const children = []
  const kill = () => {
    for (const child of children) {
      try {
        process.kill(-child.pid, 'SIGKILL') // and its children
      } catch {} // it has gone
    }
  }
  process.once('exit', kill)
  const start = (path, args, options) => {
    const child = spawn(path, args, { detached: true, ...options })
    children.push(child)
    return child
  }
  try {
    const screen = start(xvfbPath, ['-displayfd', '3', '-screen', '0', '1440x900x24', '-nolisten', 'tcp'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    const [display] = await Promise.race([once(screen.stdio[3], 'data'), ended(screen, xvfbPath)])
    const port = await freePort()
    const env = {
      ...process.env,
      DISPLAY: `:${String(display).trim()}`,
      GDK_BACKEND: 'x11',
      LIBGL_ALWAYS_SOFTWARE: '1',
    }
    const driver = start(driverPath, [`--port=${port}`, '--host=127.0.0.1'], { stdio: 'ignore', env })
    const session = await Promise.race([newSession(`http://127.0.0.1:${port}`), ended(driver, driverPath)])
    return {
      ...session,
      async close() {
        await session.close().catch(() => {})
        process.off('exit', kill)
        kill()
      },
    }
  } catch (error) {
    process.off('exit', kill)
    kill()
    throw error
  }
}

async function ended(child, path) {
  const [code] = await once(child, 'exit')
  throw new Error(`${path} ended with ${code}`)
}

async function freePort() {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address()
  await once(server.close(), 'close')
  return port
}

async function newSession(driver) {
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
  return {
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
    close: () => call('DELETE', at),
  }
}

if (process.argv[1] === import.meta.filename) {
  for (const name of ['webkit', 'xvfb']) console.log(`${name}: ${await findBrowser(name)}`)
}
