// Where a page's content security policy forbids WebAssembly, or requests to the servers, the SDK's error says so in the same words in
// every browser.

import { expect } from 'vitest'
import { startPage } from '../support/web.js'

/** Runs on the page. */
const opened = (servers: readonly [string, string]) =>
  keyhush.open({ servers, storage: 'memory' }).then(
    () => 'opened',
    error => [error.code, error.reason, /wasm-unsafe-eval/.test(error.message)].join(' '),
  )

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

/** `evaluate` opens a page in some browser and runs a function there. */
export async function expectToldOfPolicy(
  evaluate: (url: string, work: typeof opened, servers: typeof NOWHERE) => Promise<string>,
): Promise<void> {
  const noWebAssembly = await startPage([], "'self'")
  expect(await evaluate(noWebAssembly.url, opened, NOWHERE)).toBe('unsupported policy true')
  await noWebAssembly.close()
  const noServers = await startPage([])
  const added = NOWHERE.map(server => `add ${server} to its connect-src`)
  expect(await evaluate(noServers.url, refused, NOWHERE)).toBe(`network false ${added} once`)
  await noServers.close()
}
