// Both servers get another database under the URLs of the old one, as when it is built anew from a table: an open map goes on with the
// new one, whatever its epoch is. One server alone changes nothing. With a publisher's key the map refuses.

import { type SignatureInfo, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { describe, expect, test } from 'vitest'
import type { KeyhushError, MapEvent } from '../src/index.js'
import { discardStateWith, type OpenWithOptions } from '../src/testing.js'
import { settle, until } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, Harness, keyless, refusedBy, sameOnBoth } from './support/harness.js'
import { A, B, type Network, showing } from './support/network.js'
import { DAY, epochsOf, NOW, publisherKey, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const MODES = ['full', 'instant', 'local'] as const

/** At epoch 1, as every first epoch. */
function another(): Database {
  const manifest = { databaseId: new Uint8Array(16).fill(0x5a), expires: NOW + DAY }
  return buildDatabase(core, { values: someValues(9, 7), partitions: 3, manifest })
}

async function opened(network: Network, options: Partial<OpenWithOptions>) {
  const harness = new Harness(network)
  const events: MapEvent[] = []
  const onEvent = (event: MapEvent) => void events.push(event)
  const map = await harness.open({ storage: 'memory', onEvent, ...options })
  return { harness, map, events }
}

describe.each(MODES)('mode %s', mode => {
  test('sync() moves to it, and lookups are right', async () => {
    const { network } = keyless()
    const { harness, map } = await opened(network, { mode })
    const next = another()
    network.replaceOnBoth(next)
    await harness.drive(map.sync())
    for (let i = 0; i < 9; i++) expect(await harness.drive(map.at(i))).toEqual(next.byIndex[i])
    expect(map.size).toBe(9)
  })

  test('an open map that hears events moves to it by itself once both servers have it, and not before', async () => {
    const { network, database } = keyless()
    network.push = true
    const { harness, map, events } = await opened(network, { mode, push: true })
    await settle()
    const next = another()
    network.replace(A, next)
    restart(network, A)
    await until(harness.clock, () => network.streams.size === 2)
    await settle()
    if (mode === 'local') expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
    expect(map.size).toBe(15)
    network.replace(B, next)
    restart(network, B)
    await until(harness.clock, () => map.size === 9)
    expect(await harness.drive(map.at(3))).toEqual(next.byIndex[3])
    const told = { instant: 'updated', full: 'outdated', local: 'outdated' }[mode]
    expect(events.filter(({ type }) => type === told)).toHaveLength(1)
  })

  test('under a publisher’s key the map stays where it is, and says why', async () => {
    const { network, database } = keyless(15, { manifest: { expires: NOW + DAY } })
    const next = another()
    network.signatures.push(signatureOf(database))
    const { harness, map } = await opened(network, { mode, publisherKey })
    network.signatures.push(signatureOf(next))
    network.replaceOnBoth(next)
    expect(await harness.failure(map.sync())).toMatchObject({ code: 'signature' })
    expect(map.size).toBe(15)
  })
})

test.each(['full', 'local', 'auto'] as const)(
  'mode %s: a stored state without a signature under the key does not open, and the error names the way out',
  async mode => {
    const secret = new Uint8Array(32).fill(8)
    const [first] = epochsOf(1) as [Database]
    const network = sameOnBoth(first)
    network.signatures.push(signatureOf(first, secret))
    const before = new World({ network, database: first })
    const map = await before.life().open({ mode, publisherKey: toHex(ed25519.getPublicKey(secret)) })
    await before.drive(map.prepare())
    await before.drive(map.close())

    const next = another()
    const world = new World({ network: signedOnBoth(next), database: next, before })
    for (let life = 0; life < 2; life++) {
      const failing = world.life()
      const { code, message } = await failing.failure(failing.openIdle({ mode, publisherKey }))
      expect({ code, message }).toMatchObject({ code: 'signature', message: expect.stringContaining('discardState()') })
    }
    const life = world.life()
    await world.drive(discardStateWith(life.environment, { servers: [A, B] }))
    const again = await life.open({ mode, publisherKey })
    expect(await world.drive(again.at(3))).toEqual(next.byIndex[3])
  },
)

describe.each(['full', 'instant'] as const)('mode %s, without events', mode => {
  test('the next lookup finds out, and is answered', async () => {
    const { network } = keyless()
    const { harness, map } = await opened(network, { mode })
    const next = another()
    network.replaceOnBoth(next)
    expect(await harness.drive(map.at(3))).toEqual(next.byIndex[3])
  })

  test.each([A, B])('%s alone has it: the lookup fails, names that server, and the map stays', async server => {
    const { network, database } = keyless()
    const { harness, map } = await opened(network, { mode })
    network.replace(server, another())
    expect(await harness.failure(map.at(3))).toMatchObject({ code: 'servers_disagree' })
    expect(map.size).toBe(15)
    network.replace(server, database)
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })
})

describe('one server has another list under its URL, as where a URL is mistaken', () => {
  const OTHERS = new Uint8Array(32).fill(8)
  /** epochs of it, and what the server says of their signatures */
  const LISTS: [string, (list: Database[]) => SignatureInfo[], number][] = [
    ['not signed', () => [], 1],
    ['signed under another key', list => list.map(each => signatureOf(each, OTHERS)), 1],
    ['of the same publisher', list => list.map(each => signatureOf(each)), 1],
    ['of the same publisher, and at a later epoch', list => list.map(each => signatureOf(each)), 3],
  ]

  describe.each(['full', 'instant'] as const)('mode %s', mode => {
    test.each(LISTS)(
      '%s: the error says which server has which, and is not one of epochs',
      async (_what, sign, epochs) => {
        const [first] = epochsOf(1, { expires: NOW + DAY }) as [Database]
        const other = [another()]
        while (other.length < epochs)
          other.push(nextEpoch(core, other.at(-1)!, [{ op: 'edit', index: 1, value: other[0]!.byIndex[2]! }]))
        const network = signedOnBoth(first)
        const { harness, map } = await opened(network, { mode, publisherKey })
        network.replace(B, other[0]!)
        for (const epoch of other.slice(1)) network.publish(B, epoch)
        network.misbehave[B] = showing(network, B, info => ({ ...info, signatures: sign(other) }))
        const errors = [
          await harness.failure(map.sync()),
          await refusedBy({ network }, { mode, publisherKey, storage: 'memory' }),
          await refusedBy({ network }, { mode, storage: 'memory' }),
        ]
        for (const { code, retryable, message } of errors as KeyhushError[]) {
          expect({ code, retryable, message }).toMatchObject({ code: 'servers_disagree', retryable: false })
          expect(message).toContain(`their databases differ: ${A} has ${toHex(first.manifest.databaseId).slice(0, 8)}…`)
          expect(message).toContain(`${B} has 5a5a5a5a… (epoch ${epochs}, `)
        }
        network.replace(B, first)
        delete network.misbehave[B]
        await harness.drive(map.sync())
        expect(await harness.drive(map.at(3))).toEqual(first.byIndex[3])
      },
    )
  })
})

/** Its streams end, and are opened again. */
function restart(network: Network, server: string): void {
  for (const stream of [...network.streams]) if (stream.server === server) stream.end()
}
