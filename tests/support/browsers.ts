// Tests in browsers. `npm test` has Chromium alone.

import type { Browser as Launched } from 'puppeteer-core'
import { afterAll, beforeAll, describe, type TestOptions } from 'vitest'
import { findBrowser, launchBrowser } from '../../tools/browsers.mjs'
import { needs } from './needs.js'
import { THOROUGH } from './thorough.js'

type Browser = Parameters<typeof findBrowser>[0]

export async function needsBrowser(name: Browser): Promise<TestOptions> {
  const isThere = await findBrowser(name).then(
    () => true,
    () => false,
  )
  return needs(isThere, `${name}, which cannot be had here (node tools/browsers.mjs says why)`)
}

/** A group of tests for each browser; `%s` in its name is the browser's. */
export async function inBrowsers<B extends Browser>(names: readonly B[], title: string, tests: (name: B) => void) {
  for (const name of names.filter(name => THOROUGH || name === 'chromium'))
    describe(title.replace('%s', name), await needsBrowser(name), () => tests(name))
}

/** The same, with a browser that runs as long as the group's tests. */
export async function withBrowsers<B extends Parameters<typeof launchBrowser>[0]>(
  names: readonly B[],
  title: string,
  tests: (name: B, browser: () => Launched) => void,
  options?: Parameters<typeof launchBrowser>[1],
) {
  await inBrowsers(names, title, name => {
    let browser: Launched
    beforeAll(async () => {
      browser = await launchBrowser(name, options)
    })
    afterAll(() => browser.close())
    tests(name, () => browser)
  })
}
