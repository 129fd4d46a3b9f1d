// Before the first instant lookup there is one round trip, which does not wait for the core.

import { expect, test } from 'vitest'
import { openWith } from '../src/testing.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, Harness, keyless } from './support/harness.js'
import { A, B, on } from './support/network.js'
import { publisherKey, signatureOf, signedOnBoth } from './support/signed.js'

const HELLO = ['/v1/info', '/v1/info', '/v1/manifest', '/v1/manifest']
const OPTIONS = { servers: [A, B], mode: 'instant', push: false } as const

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
  expect(await harness.failure(openWith(harness.environment, OPTIONS))).toMatchObject({ name: 'UnsupportedError' })
})

test('a signature is in what the servers have said, or asked for once more', async () => {
  const database = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
  const open = async (late: boolean) => {
    const network = signedOnBoth(database)
    const harness = new Harness(network, 1, { openStore })
    if (late) {
      network.signatures.length = 0 // the manifest was there before its signature
      let asked = 0
      for (const server of [A, B]) {
        network.misbehave[server] = on('/v1/info', () => {
          if (++asked === 2) queueMicrotask(() => network.signatures.push(signatureOf(database)))
          return Response.json(network.info(server))
        })
      }
    }
    await harness.drive(openWith(harness.environment, { ...OPTIONS, publisherKey }))
    return network.seen.filter(({ path }) => path === '/v1/info').length
  }
  expect(await open(false)).toBe(2)
  expect(await open(true)).toBe(4)
})
