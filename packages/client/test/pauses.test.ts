// A call is cut into tasks: between two of them the page has its thread back. The longest of an offline phase in a
// browser: `npm run bench -- --only lookups`.

import { describe, expect, test } from 'vitest'
import type { Environment } from '../src/platform/environment.js'
import { openWith } from '../src/testing.js'
import { settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, keyless } from './support/harness.js'
import { A, B, on } from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'

const OPTIONS = { servers: [A, B], mode: 'instant', storage: 'memory', push: false } as const

/** An instant map whose steps are written down: `pause`, and what is called between two of them. */
function watched() {
  const { network, database } = keyless()
  const steps: string[] = []
  const harness = new Harness(network, 1, {
    async pause(when) {
      steps.push(when ?? 'pause')
    },
    loadCore: (async () => {
      steps.push('core')
      return core
    }) as Environment['loadCore'],
  })
  const fetch: Environment['fetch'] = (url, init) => {
    steps.push(url.slice(url.indexOf('/v1/')))
    return harness.environment.fetch(url, init)
  }
  return { harness, steps, database, environment: { ...harness.environment, fetch } }
}

test('open() yields before it asks for manifests, before it starts the core, and at its end', async () => {
  const { harness, steps, environment } = watched()
  const opening = openWith(environment, OPTIONS)
  expect(steps).toEqual(['pause'])
  await harness.drive(opening)
  const both = (path: string) => [path, path]
  expect(steps).toEqual(['pause', ...both('/v1/manifest'), 'pause', 'core', ...both('/v1/info'), 'pause'])
})

test('a lookup yields once, then sends both requests together; withdrawn before that, it sends nothing', async () => {
  const { harness, steps, environment, database } = watched()
  const map = await harness.drive(openWith(environment, OPTIONS))
  steps.length = 0
  const found = map.at(3)
  expect(steps).toEqual(['pause'])
  expect(await harness.drive(found)).toEqual(database.byIndex[3])
  expect(steps).toEqual(['pause', '/v1/instant', '/v1/instant'])
  steps.length = 0
  const controller = new AbortController()
  const withdrawn = map.at(3, { signal: controller.signal })
  controller.abort()
  await expect(harness.drive(withdrawn)).rejects.toThrow('abort')
  await harness.drive(map.close())
  expect(steps).toEqual(['pause'])
})

test('in mode auto what a state costs is computed in the background, once open() has resolved', async () => {
  const { harness, steps, environment } = watched()
  const map = await harness.drive(openWith(environment, { ...OPTIONS, mode: 'auto' }))
  const cores = () => steps.filter(step => step === 'core' || step === 'background')
  expect(cores()).toEqual(['core', 'background'])
  await harness.drive(map.at(3))
  await settle()
  expect(cores().slice(0, 4)).toEqual(['core', 'background', 'background', 'core'])
})

// Before the first instant lookup there is one round trip, which does not wait for the core.
describe('the first round trip', () => {
  const HELLO = ['/v1/info', '/v1/info', '/v1/manifest', '/v1/manifest']

  const openStore = async () => {
    throw new Error('nothing is stored')
  }

  test('what servers agree on and offer comes while the core is loaded', async () => {
    const { network, database } = keyless()
    let load: (loaded: typeof core) => void = () => {}
    const loaded = new Promise<typeof core>(resolve => {
      load = resolve
    })
    const paths = () => network.seen.map(({ path }) => path).sort()
    const loadCore = (() => loaded) as never
    const harness = new Harness(network, 1, { openStore, loadCore })
    const opening = openWith(harness.environment, OPTIONS)
    await harness.drive(Promise.resolve())
    expect(paths()).toEqual(HELLO)
    load(core)
    const map = await harness.drive(opening)
    expect(paths()).toEqual(HELLO)
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })

  test('who asks and has no core is told so, whatever the servers say', async () => {
    const { network } = keyless()
    network.misbehave[B] = on('/v1/manifest', () => new Response('', { status: 500 }))
    const loadCore = () => Promise.reject(new WebAssembly.CompileError('refused'))
    const harness = new Harness(network, 1, { openStore, loadCore })
    expect(await harness.failure(openWith(harness.environment, { ...OPTIONS, mode: 'full' }))).toMatchObject({
      name: 'UnsupportedError',
    })
  })

  test('a signature is in what the servers have said: they are not asked again', async () => {
    const database = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const network = signedOnBoth(database)
    const signatures = network.signatures.splice(0)
    const harness = new Harness(network, 1, { openStore })
    const open = () => openWith(harness.environment, { ...OPTIONS, publisherKey })
    const infos = () => network.seen.filter(({ path }) => path === '/v1/info').length
    expect((await harness.failure(open())).code).toBe('signature') // the manifest was there before its signature
    expect(infos()).toBe(2)
    network.signatures.push(...signatures)
    await harness.drive(open())
    expect(infos()).toBe(4)
  })
})
