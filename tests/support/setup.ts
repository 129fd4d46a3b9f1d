// What vitest has no settings for. It loads this before each file of tests.

import { expect, vi } from 'vitest'

// Compares byte arrays at once: by elements it took a twentieth of all tests' time.
expect.addEqualityTesters([
  (a: unknown, b: unknown) => {
    if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b) === 0
    return undefined // not for this one to tell
  },
])

const { waitFor } = vi
const timeout = Number(process.env['KEYHUSH_WAIT_MILLISECONDS'])
vi.waitFor = (check, options) => waitFor(check, typeof options === 'object' ? { ...options, timeout } : timeout)
