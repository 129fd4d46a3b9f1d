// What an app may write about errors, modes and servers. With other types this file does not compile, and `npm run lint` fails.

import { INSTANT_PATH } from '@keyhush/protocol'
import { describe, expect, expectTypeOf, test } from 'vitest'
import * as client from '../src/index.js'
import { estimate } from '../src/index.js'
import { fakeMap } from '../src/testing/fake-map.js'
import { keyed, openedOn } from './support/harness.js'
import { A, B, on, problem } from './support/network.js'

/** Each `case` has the fields of its class, and a code without a `case` does not compile. */
function explain(error: client.KeyhushError): string {
  switch (error.code) {
    case 'tampered':
    case 'network':
    case 'protocol':
      return `${error.server}: ${error.refusal}; ${error.other?.message}`
    case 'rate_limited':
      return `in ${error.retryAfterMs} ms`
    case 'version':
      return `${error.newest?.epoch}`
    case 'timeout':
      return error.servers.join()
    case 'condemned':
      return `${error.server}`
    case 'unsupported':
      return error.reason
    case 'servers_disagree':
    case 'signature':
    case 'storage':
    case 'internal':
    case 'closed':
    case 'usage':
      return error.message
    default:
      return error satisfies never
  }
}

test('`instanceof KeyhushError` narrows to a union of all classes, and its code to one of them', () => {
  const caught: unknown = new client.RateLimitedError('https://a.example', 17_000)
  expect(caught).toBeInstanceOf(client.KeyhushError)
  if (!(caught instanceof client.KeyhushError)) return
  expectTypeOf(caught).toEqualTypeOf<client.KeyhushError>()
  expect(explain(caught)).toBe('in 17000 ms')
  expect(explain(new client.UnsupportedError('memory', 'too large'))).toBe('memory')
  expect(new Error('of the app')).not.toBeInstanceOf(client.KeyhushError)
})

test('`instanceof` holds for errors of another copy of the package, of the same class and of those above it', async () => {
  const path = '@keyhush/client/keyhush.js'
  const other: typeof client = await import(path)
  const made = (from: typeof client) => [
    new from.TamperedError('https://a.example', 'a lie'),
    new from.CondemnedError(undefined),
    new from.NetworkError('https://a.example', 'away'),
    new from.UsageError('a wrong argument'),
  ]
  const classes = Object.entries(client).filter(([name]) => name.endsWith('Error')) as [
    keyof typeof client,
    abstract new () => Error,
  ][]
  expect(classes.length).toBeGreaterThan(14)
  const kept = made(client)
  for (const [i, error] of made(other).entries()) {
    expect(error.constructor).not.toBe(kept[i]!.constructor)
    for (const [name, Class] of classes) {
      const isSuch = [error.name, 'KeyhushError', ...('refusal' in error ? ['ServerError'] : [])].includes(name)
      expect([name, error instanceof Class, kept[i] instanceof Class]).toEqual([name, isSuch, isSuch])
      expect(kept[i] instanceof (other[name] as typeof Class)).toBe(isSuch)
    }
    expect(() => fakeMap({}, { failWith: error })).not.toThrow()
  }
  class OfTheApp extends client.NetworkError {}
  expect(new OfTheApp('https://a.example', 'away')).toBeInstanceOf(OfTheApp)
  expect(new client.NetworkError('https://a.example', 'away')).not.toBeInstanceOf(OfTheApp)
  for (const none of [undefined, null, 'network', {}, new Error('of the app')]) {
    expect(none instanceof client.KeyhushError).toBe(false)
  }
})

test('an error says whether calling again may help, and when, as the server has told', async () => {
  const { network, harness, map } = await openedOn(keyed(), { mode: 'instant' })
  const cases: [Response, object][] = [
    [problem(429, 'rate_limited', { 'retry-after': '17' }), { retryable: true, retryAfterMs: 17_000 }],
    [problem(503, 'instant_full', { 'retry-after': '1' }), { code: 'network', retryable: true, retryAfterMs: 1_000 }],
    [problem(503, 'not_ready'), { code: 'network', retryable: true, retryAfterMs: undefined }],
    [problem(400, 'bad_request'), { code: 'protocol', retryable: false, retryAfterMs: undefined }],
    [problem(404, 'epoch_unknown'), { code: 'version', retryable: true }],
  ]
  for (const [reply, expected] of cases) {
    network.misbehave[A] = on(INSTANT_PATH, () => reply.clone())
    expect(await harness.failure(map.at(1))).toMatchObject(expected)
  }
})

test('modes are a union of literals wherever they are named', () => {
  type Mode = 'local' | 'full' | 'instant' | 'single'
  expectTypeOf<client.KeyhushMap['mode']>().toEqualTypeOf<Mode | 'filter' | undefined>()
  expectTypeOf<Extract<client.MapEvent, { type: 'mode' }>['mode']>().toEqualTypeOf<Mode | undefined>()
  expectTypeOf<client.Estimate['mode']>().toEqualTypeOf<Mode>()
  expectTypeOf<keyof client.Estimate['modes']>().toEqualTypeOf<Mode>()
})

describe('servers from a configuration, whose number no type knows', () => {
  const configured = (text: string): readonly string[] => JSON.parse(text)
  const KEY = '00'.repeat(32)

  test.each([
    ['none', '[]', 'a list of 0'],
    ['nine', JSON.stringify(Array.from({ length: 9 }, (_, i) => `https://${i}.example`)), 'a list of 9'],
  ])('%s: refused, with what was expected, what came and what to do', async (_what, text, came) => {
    const servers = configured(text)
    const message = new RegExp(`^servers: expected \\[one URL\\], or up to 8 of .*, got ${came}; pass `)
    const calls = [
      client.open({ servers, publisherKey: KEY }),
      client.estimate(servers),
      client.discardState({ servers, store: () => Promise.reject(new Error('not reached')) }),
    ]
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({ code: 'usage', message: expect.stringMatching(message) })
    }
  })
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
