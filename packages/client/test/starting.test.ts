// What is said where the WebAssembly core does not start: what is to be done about it, and nothing that is not so.

import { afterEach, expect, test, vi } from 'vitest'
import { startCore } from '../src/platform/starting.js'

afterEach(() => void vi.unstubAllGlobals())

const failingWith = (cause: unknown) =>
  startCore({ loadCore: () => Promise.reject(cause), pause: async () => {} }, 'client')

test.each([
  ['policy', new WebAssembly.CompileError('blocked by CSP'), 'wasm-unsafe-eval'],
  ['policy', new EvalError('Refused to create a WebAssembly object'), 'wasm-unsafe-eval'],
  ['memory', new RangeError('could not allocate memory'), 'close other pages'],
  ['module', new TypeError('Failed to fetch dynamically imported module'), 'open({ wasm })'],
] as const)('%s: %s', async (reason, cause, wayOut) => {
  const error = await failingWith(cause).catch(error => error)
  expect([error.code, error.reason, error.cause]).toEqual(['unsupported', reason, cause])
  expect(error.message).toContain(wayOut)
})

test('webassembly: there is none, or none with SIMD', async () => {
  vi.stubGlobal('WebAssembly', { ...WebAssembly, CompileError: WebAssembly.CompileError, validate: () => false })
  await expect(failingWith(new WebAssembly.CompileError('invalid value type'))).rejects.toMatchObject({
    reason: 'webassembly',
  })
  vi.stubGlobal('WebAssembly', undefined)
  await expect(failingWith(new ReferenceError('WebAssembly is not defined'))).rejects.toMatchObject({
    reason: 'webassembly',
  })
})
