// What a test needs of the machine. Without it the test is skipped, and the summary of `npm test` says why.

import type { Browser as Launched } from 'puppeteer-core'
import { afterAll, beforeAll, describe, type TestOptions } from 'vitest'
import { findBrowser, launchBrowser } from '../../tools/browsers.mjs'

declare module 'vitest' {
  interface TaskMeta {
    needs?: string
  }
}

/** Options of a test, or of a group. */
export function needs(isThere: boolean, what: string): TestOptions {
  return isThere ? {} : { skip: true, meta: { needs: what } }
}

export const NEEDS_LINUX = needs(process.platform === 'linux', 'Linux')
export const NEEDS_POSIX = needs(process.platform !== 'win32', 'a system other than Windows')

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
  for (const name of names) describe(title.replace('%s', name), await needsBrowser(name), () => tests(name))
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
