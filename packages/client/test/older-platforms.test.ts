// Platforms that lack a function of the last years: open() says which one, and does without the newest.

import { afterEach, expect, test } from 'vitest'
import { estimate, open } from '../src/index.js'
import { Harness, keyed, NAMES } from './support/harness.js'
import { A, B } from './support/network.js'

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
    expect(error.message).toMatch(`expected a platform that has ${what}, got an older one; update it`)
  }
  expect(network.seen).toEqual([])
})

test.each(['full', 'instant'] as const)('without AbortSignal.any, mode %s works', async mode => {
  without(AbortSignal, 'any')
  const { network } = keyed()
  const harness = new Harness(network)
  const map = await harness.open({ mode })
  expect(await harness.drive(map.has(NAMES[3]!))).toBe(true)
  await harness.drive(map.reset())
})
