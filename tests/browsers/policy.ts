// A page whose content security policy forbids WebAssembly: lookups are instant, or in a small copy. Where it forbids other modes'
// WebAssembly, or requests to the servers, the SDK's error says so in the same words in every browser.

import { expect } from 'vitest'
import { startPage } from '../support/web.js'

/** Runs on the page. */
const opened = async (servers: readonly [string, string]) => {
  const refused = await keyhush.open({ servers, mode: 'full', storage: 'memory' }).then(
    () => 'opened',
    error => [error.code, error.reason, /wasm-unsafe-eval/.test(error.message)].join(' '),
  )
  const found: unknown[] = []
  for (const mode of ['auto', 'instant', 'local'] as const) {
    const map = await keyhush.open({ servers, mode, storage: 'memory' })
    for (const key of ['name 2 é', 'name 299 é', 'nobody']) found.push(await map.getText(key))
    found.push(map.mode, map.stats.core)
    await map.close()
  }
  return `${refused}; ${found.join()}`
}

/** Runs on the page. The policy reports each request that it refuses. */
const refused = async (servers: readonly [string, string]) => {
  const reports: string[] = []
  document.addEventListener('securitypolicyviolation', ({ blockedURI }) => void reports.push(blockedURI))
  const { code, retryable, message } = await keyhush.open({ servers, mode: 'instant' }).catch(error => error)
  const once = new Set(reports).size === reports.length ? 'once' : `${reports.length} times`
  return [code, retryable, message.match(/add \S+ to its connect-src/g)?.join(), once].join(' ')
}

// (Browsers refuse port 1 by themselves.)
const NOWHERE = ['http://localhost:8001', 'http://localhost:8002'] as const

/** `evaluate` opens a page in some browser and runs a function there. `servers` have 300 names. */
export async function expectToldOfPolicy(
  servers: readonly [string, string],
  evaluate: (url: string, work: typeof opened, servers: readonly [string, string]) => Promise<string>,
): Promise<void> {
  const origins = servers.map(server => new URL(server).origin)
  const noWebAssembly = await startPage(origins, "'self'")
  const found = (mode: string) => `hello, name 2 é,hello, name 299 é,,${mode},script`
  expect(await evaluate(noWebAssembly.url, opened, servers)).toBe(
    `unsupported policy true; ${['instant', 'instant', 'local'].map(found)}`,
  )
  await noWebAssembly.close()
  const noServers = await startPage([])
  const added = NOWHERE.map(server => `add ${server} to its connect-src`)
  expect(await evaluate(noServers.url, refused, NOWHERE)).toBe(`network false ${added} once`)
  await noServers.close()
}
