// What a call does it does in turns: between two of them the page has its thread back. How long each is, `npm run bench -- --only tasks`
// measures in a browser.

import { expect, test } from 'vitest'
import type { Environment } from '../src/platform/environment.js'
import { openWith } from '../src/testing.js'
import { core, Harness, keyless } from './support/harness.js'
import { A, B } from './support/network.js'

const OPTIONS = { servers: [A, B], mode: 'instant', storage: 'memory', push: false } as const

/** An instant map whose turns are written down: `pause`, and what is called between two of them. */
function watched() {
  const { network, database } = keyless()
  const turns: string[] = []
  const harness = new Harness(network, 1, {
    async pause(behind) {
      turns.push(behind ?? 'pause')
    },
    loadCore: (async () => {
      turns.push('core')
      return core
    }) as Environment['loadCore'],
  })
  const fetch: Environment['fetch'] = (url, init) => {
    turns.push(url.slice(url.indexOf('/v1/')))
    return harness.environment.fetch(url, init)
  }
  return { harness, turns, database, environment: { ...harness.environment, fetch } }
}

test('open() yields before it asks for manifests, before it starts the core, and at its end', async () => {
  const { harness, turns, environment } = watched()
  const opening = openWith(environment, OPTIONS)
  expect(turns).toEqual(['pause'])
  await harness.drive(opening)
  const both = (path: string) => [path, path]
  expect(turns).toEqual(['pause', ...both('/v1/manifest'), 'pause', 'core', ...both('/v1/info'), 'pause'])
})

test('a lookup yields once, then sends both requests together; withdrawn before that, it sends nothing', async () => {
  const { harness, turns, environment, database } = watched()
  const map = await harness.drive(openWith(environment, OPTIONS))
  turns.length = 0
  const found = map.at(3)
  expect(turns).toEqual(['pause'])
  expect(await harness.drive(found)).toEqual(database.byIndex[3])
  expect(turns).toEqual(['pause', '/v1/instant', '/v1/instant'])
  turns.length = 0
  const controller = new AbortController()
  const withdrawn = map.at(3, { signal: controller.signal })
  controller.abort()
  await expect(harness.drive(withdrawn)).rejects.toThrow('abort')
  await harness.drive(map.close())
  expect(turns).toEqual(['pause'])
})

test('in mode auto what a state costs is computed behind the page, once open() has resolved', async () => {
  const { harness, turns, environment } = watched()
  const map = await harness.drive(openWith(environment, { ...OPTIONS, mode: 'auto' }))
  await harness.drive(map.at(3))
  const cores = turns.filter(turn => turn === 'core' || turn === 'behind')
  expect(cores.slice(0, 3)).toEqual(['core', 'behind', 'core'])
})
