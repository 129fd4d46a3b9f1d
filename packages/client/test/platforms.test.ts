// What is said where the WebAssembly core does not start: what is to be done about it, and nothing that is not so.

import { AsyncLocalStorage } from 'node:async_hooks'
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
  [
    'policy',
    new EvalError('Refused to create a WebAssembly object'),
    "add 'wasm-unsafe-eval' to the page's script-src, or",
  ],
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

// As in Cloudflare Workers: a request's signals are for it alone, and outside of requests there are none. (tests/package/matrix has the
// platform itself.)
const request = new AsyncLocalStorage<number>()

function separateRequests(): void {
  const Platforms = AbortController
  const inAnother = () => {
    throw new Error('Cannot perform I/O on behalf of a different request.')
  }
  class OfRequest extends Platforms {
    constructor() {
      super()
      const made = request.getStore() ?? inAnother()
      const own = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted')!
      const get = () => (request.getStore() === made ? own.get!.call(this.signal) : inAnother())
      Object.defineProperty(this.signal, 'aborted', { get })
    }
  }
  vi.stubGlobal('AbortController', OfRequest)
}

test('a map is for the request that has opened it: each call in another says so, and requests side by side share nothing', async () => {
  separateRequests()
  const { network } = keyed()
  const { fetch } = network
  const opened = () => open({ servers: [A, B], mode: 'instant', push: false, fetch })
  const found = ['vvv', 'vvv', 'vvv']
  const whole = async (id: number) =>
    await request.run(id, async () => {
      const map = await opened()
      const values = [await map.getText(NAMES[3]!), await map.getText(NAMES[3]!), await map.getText(NAMES[3]!)]
      await map.close()
      return values
    })
  expect(await Promise.all([whole(1), whole(2), whole(3)])).toEqual([found, found, found])

  const kept = await request.run(4, opened)
  const { length } = network.seen
  const calls = [
    () => kept.getText(NAMES[3]!),
    () => kept.at(3),
    () => kept.sync(),
    () => kept.reset(),
    () => kept.close(),
  ]
  for (const call of [...calls.map(call => () => request.run<Promise<unknown>>(5, call)), () => request.exit(opened)]) {
    const error = await (call() as Promise<unknown>).catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'unsupported', reason: 'platform', retryable: false })
    expect((error as Error).message).toContain('open() a map in each request, and close() it there')
  }
  expect(network.seen.length).toBe(length)
  expect(await whole(6)).toEqual(found)
})
