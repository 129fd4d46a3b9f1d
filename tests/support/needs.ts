// What a test needs of the machine. Without it the test is skipped, and the summary of `npm test` says why.

import type { TestOptions } from 'vitest'

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
