// Many calls under one signal: Node warns of a leak from the eleventh listener on, in the app's own process.

import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { onAbort } from '../src/base/abort.js'
import { Harness, keyless } from './support/harness.js'

const warnings: string[] = []
const note = ({ name }: Error) => void warnings.push(name)
beforeEach(() => {
  warnings.length = 0
  process.on('warning', note)
})
afterEach(() => {
  process.off('warning', note)
})

test('twenty calls of each kind under one signal, and without one: no warning, and no listener is left', async () => {
  const harness = new Harness(keyless(100).network)
  const { signal } = new AbortController()
  const many = <T>(call: (options: { signal?: AbortSignal }) => Promise<T>) => {
    const calls = Array.from({ length: 20 }, (_, i) => call(i % 2 === 0 ? { signal } : {}))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    return harness.drive(Promise.all(calls))
  }
  const [map] = await many(options => harness.open(options))
  await many(options => map!.at(3, options))
  await many(options => map!.sync(options))
  await many(options => map!.reset(options))
  expect(getEventListeners(signal, 'abort')).toEqual([])
  await new Promise(resolve => setImmediate(resolve)) // warnings are told on a later tick
  expect(warnings).toEqual([])
})

describe('those who wait for one signal', () => {
  test('are called once, in their order, but for those who have withdrawn', () => {
    const controller = new AbortController()
    const called: string[] = []
    const say = (who: string) => () => void called.push(who)
    const twice = say('twice')
    const withdraw = onAbort(controller.signal, say('withdrawn before'))
    onAbort(controller.signal, twice)
    const withdrawLater = onAbort(controller.signal, () => {
      called.push('second')
      withdrawThird()
    })
    onAbort(controller.signal, twice)
    const withdrawThird = onAbort(controller.signal, say('withdrawn meanwhile'))
    withdraw()
    withdraw()
    controller.abort()
    withdrawLater()
    expect(called).toEqual(['twice', 'second', 'twice'])
  })

  test('withdrawn twice, one takes nobody else with it', () => {
    const controller = new AbortController()
    const called: string[] = []
    const withdraw = onAbort(controller.signal, () => {})
    withdraw()
    onAbort(controller.signal, () => called.push('next'))
    withdraw()
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
    onAbort(controller.signal, () => called.push('last'))
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
    controller.abort()
    expect(called).toEqual(['next', 'last'])
  })
})
