// A map with the publisher's key keeps the newest epoch it has been at, also when a download fails and two servers lie together.

import { expect, test } from 'vitest'
import { buildDatabase, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core } from './support/harness.js'
import { A, B, on, problem } from './support/network.js'
import { publisherKey, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

test.each(['full', 'local'] as const)(
  'mode %s: a map is not made to forget by a download that the servers break off',
  async (mode: 'full' | 'local') => {
    const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const epochs = [first]
    for (let i = 1; i <= 4; i++) {
      epochs.push(
        nextEpoch(core, epochs.at(-1)!, [{ op: 'edit', index: i, value: new TextEncoder().encode(`ep. ${i}`) }]),
      )
    }
    const before = new World({ network: signedOnBoth(...epochs.slice(0, 3)), database: first })
    const options = { publisherKey, mode }
    const map = await before.life().open(options)
    expect(map.epoch).toBe(3)
    await before.drive(map.close())

    // Genuine and signed, but without the updates to it; and once the map has dropped its state, no more replies.
    const stalling = signedOnBoth(epochs[4]!)
    let manifests = 0
    for (const server of [A, B]) {
      stalling.misbehave[server] = on('/v1/manifest', (genuine, { path }) =>
        path !== '/v1/manifest' || ++manifests <= 4 ? genuine : problem(503, 'not_ready'),
      )
    }
    const meanwhile = new World({ network: stalling, database: first, before })
    const life = meanwhile.life()
    expect((await life.failure(life.openIdle(options))).code).toBe('network')

    // The map has been at epoch 3; epoch 1 is two older.
    const back = new World({ network: signedOnBoth(first), database: first, before: meanwhile })
    const later = back.life()
    // A copy of all records opens all the same, at its own epoch.
    if (mode === 'local') expect((await later.open(options)).epoch).toBe(3)
    else expect((await later.failure(later.openIdle(options))).code).toBe('signature')
  },
)
