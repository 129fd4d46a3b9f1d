// Where a page's content security policy forbids WebAssembly, the SDK's error says so in the same words in every browser.

import { expect } from 'vitest'
import { startPage } from '../support/web.js'

/** Runs on the page. */
const opened = (servers: readonly [string, string]) =>
  keyhush.open({ servers, storage: 'memory' }).then(
    () => 'opened',
    error => [error.code, error.reason, /wasm-unsafe-eval/.test(error.message)].join(' '),
  )

const NOWHERE = ['http://localhost:1', 'http://localhost:2'] as const

/** `evaluate` opens a page in some browser and runs a function there. */
export async function expectToldOfPolicy(
  evaluate: (url: string, work: typeof opened, servers: typeof NOWHERE) => Promise<string>,
): Promise<void> {
  const page = await startPage([], "'self'")
  expect(await evaluate(page.url, opened, NOWHERE)).toBe('unsupported policy true')
  await page.close()
}
