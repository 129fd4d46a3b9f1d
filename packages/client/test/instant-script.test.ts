// Where WebAssembly does not run, open() takes the core in JavaScript by itself, and mode `auto` stays in `instant`. (All
// tests of mode `instant` with it: instant-without-simd.all.test.ts.)

import { afterEach, describe, expect, test, vi } from 'vitest'
import { rest } from './support/clock.js'
import { Harness, keyed, NAMES } from './support/harness.js'
import { A, B } from './support/network.js'
import { forbidden, noSimd } from './support/no-webassembly.js'
import { publisherKey } from './support/signed.js'
import { World } from './support/world.js'

const platform = WebAssembly

afterEach(() => void vi.unstubAllGlobals())

describe.each<[string, typeof WebAssembly | undefined, string]>([
  ['no WebAssembly', undefined, 'webassembly'],
  ['no SIMD', noSimd, 'webassembly'],
  ['a policy that forbids large modules', platform, 'policy'],
  ['a policy that forbids it', forbidden, 'policy'],
  ['no memory for it', platform, 'memory'],
])('with %s', (_, wasm, reason) => {
  /** As the loaders do. */
  const loadCore = async () => {
    if (wasm === undefined) throw new ReferenceError('WebAssembly is not defined')
    throw reason === 'memory' ? new RangeError('Out of memory') : new EvalError('Refused to create it')
  }

  test.each([
    ['instant', [A, B]],
    ['auto', [A, B]],
  ] as const)('mode %s answers instantly, and says by which core', async (mode, servers) => {
    const { network, database } = keyed()
    const harness = new Harness(network, 1, { loadCore })
    vi.stubGlobal('WebAssembly', wasm)
    const events: string[] = []
    const map = await harness.open({ servers, mode, onEvent: ({ type }) => void events.push(type) })
    for (const [i, name] of NAMES.slice(0, 5).entries()) {
      expect(await harness.drive(map.get(name))).toEqual(database.contents.values[i])
      await rest() // what is made behind would be made
    }
    expect(await harness.drive(map.getMany(['absent', NAMES[7]!]))).toEqual([undefined, database.contents.values[7]])
    expect([map.mode, map.stats.core]).toEqual(['instant', 'script'])
    expect(events.filter(type => type !== 'storage')).toEqual(reason === 'webassembly' ? [] : ['without-webassembly'])
    expect(network.seen.some(({ path }) => path.startsWith('/v1/blobs/'))).toBe(false)
  })

  test.each([
    ['full', [A, B]],
    ['single', [A]],
    ['auto', [A]],
  ] as const)('mode %s of %j is refused', async (mode, servers) => {
    const { network } = keyed()
    const harness = new Harness(network, 1, { loadCore })
    vi.stubGlobal('WebAssembly', wasm)
    expect(await harness.failure(harness.open({ servers, mode, publisherKey }))).toMatchObject({
      code: 'unsupported',
      reason,
    })
  })

  test('prepare() in mode auto is refused, and lookups go on', async () => {
    const { network, database } = keyed()
    const harness = new Harness(network, 1, { loadCore })
    vi.stubGlobal('WebAssembly', wasm)
    const map = await harness.open({ mode: 'auto' })
    expect(await harness.failure(map.prepare())).toMatchObject({ code: 'unsupported', reason })
    expect(await harness.drive(map.get(NAMES[3]!))).toEqual(database.contents.values[3])
    expect([map.mode, map.stats.core]).toEqual(['instant', 'script'])
  })
})

test('with WebAssembly, that is what answers', async () => {
  const { network } = keyed()
  const harness = new Harness(network)
  expect((await harness.open({ mode: 'instant' })).stats.core).toBe('wasm')
})

test('a state that is stored waits in mode auto until WebAssembly is there again', async () => {
  const w = new World()
  const open = async () => {
    const life = w.life()
    const map = await life.open({ mode: 'auto' })
    await rest()
    await w.checkValues(map)
    const { mode, stats } = map
    await w.drive(map.close())
    return [mode, stats.core, ...life.events.map(({ type }) => type)]
  }
  expect(await open()).toEqual(['local', 'wasm', 'preparing', 'prepared', 'mode'])
  vi.stubGlobal('WebAssembly', noSimd)
  expect(await open()).toEqual(['instant', 'script'])
  vi.unstubAllGlobals()
  expect(await open()).toEqual(['local', 'wasm', 'resumed'])
})
