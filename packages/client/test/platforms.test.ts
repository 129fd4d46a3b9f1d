// What is said where the WebAssembly core does not start: what is to be done about it, and nothing that is not so.

import { afterEach, expect, test, vi } from 'vitest'
import { estimate, open, type UnsupportedError } from '../src/index.js'
import { loadPart } from '../src/platform/parts.js'
import { startCore } from '../src/platform/starting.js'
import { openWith } from '../src/testing.js'
import { keyed, NAMES, openedOn } from './support/harness.js'
import { A, B } from './support/network.js'
import './support/no-webassembly.js'

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

test.each([
  ['webassembly', undefined, 'expected WebAssembly with SIMD, got none; update the platform, or'],
  ['policy', new EvalError('Refused to create a WebAssembly object'), "add 'wasm-unsafe-eval' to its script-src, or"],
] as const)(
  '%s: one server in mode instant needs it, so two servers are what does without',
  async (reason, refusal, wayOut) => {
    const fail = () => {
      throw refusal
    }
    const refusing = { Module: fail, compile: fail, instantiate: fail, validate: () => true, CompileError: EvalError }
    vi.stubGlobal('WebAssembly', refusal && refusing)
    const { fetch } = keyed().network
    const options = { servers: [A], publisherKey: 'ab'.repeat(32), mode: 'instant', experimental: true, fetch } as const
    const error = await open(options).catch(error => error)
    expect(error).toMatchObject({ code: 'unsupported', reason })
    expect(error.message).toContain(`${wayOut} use 'instant' with two servers`)
  },
)

// Platforms that lack a function of the last years: open() says which one, and does without the newest.
const restored: (() => void)[] = []
afterEach(() => {
  for (const restore of restored.splice(0)) restore()
})

/** Takes it away for a test. */
function without(owner: object, name: string): void {
  const own = Object.getOwnPropertyDescriptor(owner, name)!
  Reflect.deleteProperty(owner, name)
  restored.push(() => void Object.defineProperty(owner, name, own))
}

test.each<[string, object, string]>([
  ['AbortSignal.prototype.throwIfAborted', AbortSignal.prototype, 'throwIfAborted'],
  ['Array.prototype.at', Array.prototype, 'at'],
  ['Object.hasOwn', Object, 'hasOwn'],
])('without %s, open() and estimate() name it, before any traffic', async (what, owner, name) => {
  const { network } = keyed()
  const { fetch } = network
  without(owner, name)
  const errors = await Promise.all([
    open({ servers: [A, B], fetch }).catch(error => error),
    estimate([A, B], { fetch }).catch(error => error),
  ])
  restored.splice(0).forEach(restore => void restore())
  for (const error of errors) {
    expect(error).toMatchObject({ code: 'unsupported', reason: 'platform', retryable: false })
    expect(error.message).toMatch(`expected a platform that has ${what}, got one without; use another`)
  }
  expect(network.seen).toEqual([])
})

test.each(['full', 'instant'] as const)('without AbortSignal.any, mode %s works', async mode => {
  without(AbortSignal, 'any')
  const { harness, map } = await openedOn(keyed(), { mode })
  expect(await harness.drive(map.has(NAMES[3]!))).toBe(true)
  await harness.drive(map.reset())
})

test('code that does not arrive is one error, which may be tried again and says both causes', async () => {
  const cause = new TypeError('Failed to fetch dynamically imported module')
  const fail = () => Promise.reject(cause)
  const { harness } = await openedOn(keyed())
  const openStore = () => loadPart(fail)
  const opened = (storage: 'required' | 'preferred' | 'memory') =>
    openWith({ ...harness.environment, openStore }, { servers: [A, B], mode: 'full', storage })
  const storages = ['required', 'preferred', 'memory'] as const
  const failures = [() => failingWith(cause), () => loadPart(fail), ...storages.map(each => () => opened(each))]
  for (const fails of failures) {
    const error = await harness.drive(fails().then(String, (error: UnsupportedError) => error))
    expect(error).toMatchObject({ code: 'unsupported', reason: 'module', retryable: true, cause })
    expect((error as UnsupportedError).message).toMatch(
      /the device is offline, or the app was deployed anew; call again/,
    )
  }
})
