// Epochs of a sharded database, as its coordinator makes them (docs/operations/sharded.md).

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeManifest } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { THOROUGH } from '../../tests/support/thorough.js'
import { builtDirectory } from './helpers.js'
import { FAULTS, type Fault, Violation, World } from './sharded-world.js'
import { KEYED } from './updatable-helpers.js'

async function template() {
  const dataset = await builtDirectory('a.csv', KEYED, { maxValueBytes: 20 })
  return decodeManifest(await readFile(join(dataset, 'manifest.bin')))
}

const STEPS = 800

/** How many batches a seed's world published, or what went wrong there. */
async function live(seed: number, fault: Fault, manifest: Awaited<ReturnType<typeof template>>) {
  const world = await World.begin(seed, fault, manifest, PUBLISHER)
  try {
    for (let steps = 0; steps < STEPS; steps++) await world.step()
    return await world.heal()
  } catch (error) {
    if (error instanceof Violation) return error.message
    throw error
  } finally {
    world.end()
  }
}

test('whatever is killed, lost, repeated or refused, operators show one manifest, all shards answer it, and publishing goes on', async () => {
  const manifest = await template()
  for (let seed = 1; seed <= (THOROUGH ? 12 : 1); seed++)
    expect([seed, await live(seed, undefined, manifest)]).toEqual([seed, expect.any(Number)])
})

/** With the first seed that finds it. */
const FOUND_AT: Readonly<Record<(typeof FAULTS)[number], number>> = {
  'no check': 1,
  'no intent': 3,
  'the hash alone as intent': 11,
  'shows early': 1,
  'a check that is signed as a batch': 29,
}

test.each(FAULTS)('a coordinator with a fault is found: %s', async fault => {
  const manifest = await template()
  const from = FOUND_AT[fault]
  for (let seed = from; seed < from + 100; seed++) if (typeof (await live(seed, fault, manifest)) === 'string') return
  expect.unreachable()
})

test('two processes that both take themselves for the writer make one epoch, of one batch', async () => {
  const manifest = await template()
  const rivals = async (seed: number, fault?: Fault) => {
    const world = await World.begin(seed, fault, manifest, PUBLISHER)
    const outcomes = await world.rivals()
    world.end()
    return outcomes
  }
  for (let seed = 1; seed <= (THOROUGH ? 20 : 8); seed++) {
    const outcomes = await rivals(seed)
    expect([seed, outcomes.length, outcomes.filter(each => each === 'epoch 2')]).toEqual([seed, 2, ['epoch 2']])
  }
  let found = false
  for (let seed = 1; seed <= 100 && !found; seed++) {
    const outcomes = await rivals(seed, 'overwrites the intent of another process')
    found = !outcomes.includes('epoch 2')
  }
  expect(found).toBe(true)
})
