// Whatever an app passes, it catches a KeyhushError.

import { expect, test } from 'vitest'
import { KeyhushError } from '../src/base/errors.js'
import { estimate } from '../src/index.js'
import { openWith } from '../src/testing.js'
import { Harness, keyed } from './support/harness.js'
import { A, B } from './support/network.js'

const any = (value: unknown) => value as never

test('open() throws only KeyhushErrors', async () => {
  const { network } = keyed()
  const harness = new Harness(network)
  const servers = [A, B] as const
  const bad: [string, unknown][] = [
    ['no options', undefined],
    ['null', null],
    ['servers with a symbol', { servers: [Symbol('a'), B] }],
    ['servers an array-like', { servers: { length: 2, 0: A, 1: B } }],
    ['a signal that is none', { servers, signal: 5 }],
    ['onProgress that is none', { servers, onProgress: 5 }],
    ['onEvent that is none', { servers, onEvent: 5 }],
    ['normalize that is none', { servers, normalize: 5 }],
    ['mode an object', { servers, mode: {} }],
    ['download an object', { servers, mode: 'auto', download: {} }],
    ['development a string', { servers: ['https://a.example:1', 'https://a.example:2'], development: 'yes' }],
  ]
  const leaks: string[] = []
  for (const [what, options] of bad) {
    await harness.drive((async () => openWith(harness.environment, any(options)))()).then(
      map => map.close(),
      (error: unknown) => {
        if (!(error instanceof KeyhushError) || error.code === 'internal') leaks.push(`${what}: ${String(error)}`)
      },
    )
  }
  expect(leaks).toEqual([])
})

test('a map throws only KeyhushErrors', async () => {
  const { network } = keyed()
  const harness = new Harness(network)
  const leaks: string[] = []
  for (const mode of ['full', 'local'] as const) {
    const map = await harness.open({ mode })
    const call = async (what: string, work: () => unknown) => {
      try {
        await harness.drive((async () => work())())
      } catch (error) {
        if (!(error instanceof KeyhushError) || error.code === 'internal')
          leaks.push(`${mode} ${what}: ${String(error)}`)
      }
    }
    const unfit = [null, 5, { signal: 5 }, { signal: {} }, { signal: null }, { padTo: '3' }, { padTo: 1e9 }]
    for (const key of [undefined, null, 5, {}, [], Symbol('x'), new Uint16Array(2), new ArrayBuffer(3), '\ud800', '']) {
      await call(`get(${typeof key})`, () => map.get(any(key)))
      await call(`has(${typeof key})`, () => map.has(any(key)))
      await call(`getMany([${typeof key}])`, () => map.getMany([any(key)]))
      await call(`getMany(${typeof key})`, () => map.getMany(any(key)))
      await call(`at(${typeof key})`, () => map.at(any(key)))
    }
    for (const index of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 32, 1n, '1'])
      await call(`at(${index})`, () => map.at(any(index)))
    for (const options of unfit) {
      const what = JSON.stringify(options)
      await call(`get(k, ${what})`, () => map.get('k', any(options)))
      await call(`getMany(k, ${what})`, () => map.getMany(['k'], any(options)))
      await call(`at(0, ${what})`, () => map.at(0, any(options)))
      await call(`sync(${what})`, () => map.sync(any(options)))
      await call(`prepare(${what})`, () => map.prepare(any(options)))
    }
    await call('reset(5)', () => map.reset(any({ onProgress: 5 })))
    await call('get after', () => map.get('k'))
    await harness.drive(map.close())
  }
  expect(leaks).toEqual([])
})

test('estimate() throws a UsageError for an invalid number, not an error about the database', async () => {
  const { network } = keyed()
  for (const name of ['lookupsPerDay', 'changesPerDay']) {
    for (const number of [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '20', null, {}]) {
      const estimating = estimate([A, B], { fetch: network.fetch, [name]: number } as never)
      await expect(estimating, `${name}: ${String(number)}`).rejects.toMatchObject({ code: 'usage' })
    }
  }
  expect(network.seen).toEqual([])
  const most = { lookupsPerDay: Number.MAX_SAFE_INTEGER, changesPerDay: Number.MAX_SAFE_INTEGER }
  const { modes } = await estimate([A, B], { fetch: network.fetch, ...most })
  for (const { dayBytes } of Object.values(modes)) expect(dayBytes).toBeGreaterThanOrEqual(0)
})
