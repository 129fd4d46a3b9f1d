// Mode `local` with a publisher's key, and with servers that are away or lie: a lookup sends nothing, and what one server says does
// not keep a stored copy from opening (docs/threat-model.md).

import { encodeManifest } from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { settle } from './support/clock.js'
import type { Database } from './support/database.js'
import { A, B, hang, having, type Misbehave, on, problem, showing, withOtherHashes } from './support/network.js'
import { DAY, epochsOf, NOW, publisherKey, publishSigned, signatureOf, signedOnBoth } from './support/signed.js'
import { World } from './support/world.js'

const options = { publisherKey, mode: 'local' } as const
const brief = { expires: NOW + DAY }

const of = (...epochs: Database[]) => new World({ network: signedOnBoth(...epochs), database: epochs.at(-1)! })
const opened = async (there: World, wish: Partial<OpenWithOptions> = options) => await there.life().open(wish)
/** Opened, and closed again. */
const stored = async (there: World, wish: Partial<OpenWithOptions> = options) =>
  await there.drive((await opened(there, wish)).close())

/** What lookups come to, all the same, after a check that they sent nothing. */
async function outcome(there: World, map: KeyhushMap): Promise<unknown> {
  const before = there.network.seen.length
  const values: unknown[] = []
  for (let i = 0; i < 3; i++) values.push(await there.drive(map.at(3).catch((error: { code: string }) => error.code)))
  expect(there.network.seen.slice(before).map(({ server, path }) => server + path)).toEqual([])
  expect(values).toEqual(Array(3).fill(values[0]))
  return values[0]
}

describe('a lookup sends nothing', () => {
  test('nor when the newest epoch has expired, because a server withholds the next', async () => {
    const there = of(...epochsOf(1, brief))
    const map = await opened(there)
    there.clock.sleep(1000 * DAY)
    expect(await outcome(there, map)).toBe('signature')
  })

  describe('also when the servers were away at open()', () => {
    const withoutServers = async (there: World, wish?: Partial<OpenWithOptions>) => {
      there.network.both(() => problem(503, 'not_ready'))
      return await outcome(there, await opened(there, wish))
    }

    test('a stored copy with a valid signature answers', async () => {
      const there = of(...epochsOf(1))
      await stored(there)
      for (const mode of ['local', 'auto'] as const) {
        expect(await withoutServers(there, { publisherKey, mode })).toEqual(there.database.byIndex[3])
      }
    })

    test.each([false, true])(
      'so does a copy that followed epochs (and ended a broken-off download: %s)',
      async half => {
        const [first, next] = epochsOf(2) as [Database, Database]
        const there = of(first)
        const life = there.life()
        if (half) {
          there.network.both(hang('/v1/blobs/'))
          life.openIdle(options).catch(() => {})
          while ((await there.head()) === undefined) await settle()
          life.kill()
          there.network.both(undefined)
        }
        const map = half ? undefined : await life.open(options)
        publishSigned(there.network, next)
        const followed = map ?? (await opened(there))
        await there.drive(followed.sync())
        expect(followed.epoch).toBe(2)
        await there.drive(followed.close())
        expect(await withoutServers(there)).toEqual(next.byIndex[3])
      },
    )

    test.each<[string, (there: World, next: Database) => Promise<void>]>([
      ['that was stored without the key', async there => await stored(there, { mode: 'local' })],
      [
        'that a tab without the key has taken to an epoch nobody has signed',
        async (there, next) => {
          await stored(there)
          const other = await opened(there, { mode: 'local' })
          there.network.publishOnBoth(next)
          await there.drive(other.sync())
          expect(other.epoch).toBe(2)
        },
      ],
      [
        'whose signature has rotted on the disk',
        async there => {
          await stored(there)
          const read = there.disk.read.bind(there.disk)
          there.disk.read = async () => {
            const { record, ...head } = (await read())!
            const signature = record.signature!.map((byte, i) => (i === 9 ? byte ^ 1 : byte))
            return { ...head, record: { ...record, signature } }
          }
        },
      ],
      [
        'whose epoch has expired',
        async there => {
          await stored(there)
          there.clock.sleep(1000 * DAY)
        },
      ],
    ])('a state %s answers nothing', async (_what, arrange) => {
      const [first, next] = epochsOf(2, brief) as [Database, Database]
      const there = of(first)
      await arrange(there, next)
      expect(await withoutServers(there)).toBe('signature')
    })
  })
})

/** A device with a copy at epoch 2, of servers that have gone on to epoch 5. */
async function behind(wish: Partial<OpenWithOptions>, manifest = {}) {
  const epochs = epochsOf(5, manifest)
  const there = of(...epochs.slice(0, 2))
  await stored(there, { mode: 'local', ...wish })
  there.network.publishOnBoth(...epochs.slice(2))
  // The newest of them alone is signed.
  there.network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(epochs.at(-1)!))
  return { there, epochs }
}

type Behind = Awaited<ReturnType<typeof behind>>

const lies: [string, (behind: Behind, liar: string) => Misbehave, isContradiction: boolean][] = [
  ['shows another hash of its epochs', ({ there }, liar) => showing(there.network, liar, withOtherHashes), true],
  [
    'shows another manifest of its epochs',
    ({ there, epochs }, liar) => {
      const others = epochs.slice(3).map(database => {
        const manifest = { ...database.manifest, expires: database.manifest.expires + 1 }
        return { ...database, manifest, manifestBytes: encodeManifest(manifest) }
      })
      return having(liar, there.network.signatures, ...others)
    },
    true,
  ],
  ['claims to be behind it, and shows no signature', ({ epochs }, liar) => having(liar, [], epochs[0]!), false],
]

describe.each([A, B])('%s', liar => {
  describe.each(lies)('%s: the copy opens and answers', (_what, lie, isContradiction) => {
    test.each<[string, Partial<OpenWithOptions>]>([
      ['mode local', { mode: 'local' }],
      ['mode auto', { mode: 'auto' }],
    ])('%s, where it is', async (_mode, wish) => {
      const device = await behind({})
      const { there, epochs } = device
      there.network.misbehave[liar] = lie(device, liar)
      const { life, map } = await there.opened(wish)
      for (const index of [0, 3, 14]) expect(await there.drive(map.at(index))).toEqual(epochs[1]!.byIndex[index])
      expect(map.epoch).toBe(2)
      const incidents = [A, B].map(server => ({ server, code: 'servers_disagree' }))
      expect(map.stats.incidents).toEqual(isContradiction ? incidents : [])
      expect(life.events.map(({ type }) => type)).toEqual(['resumed'])

      there.network.misbehave[liar] = undefined
      await there.drive(map.sync())
      expect(map.epoch).toBe(5)
    })

    test.each<[string, Partial<OpenWithOptions>]>([
      ['mode local', { mode: 'local', publisherKey }],
      ['mode auto', { mode: 'auto', publisherKey }],
    ])('%s, signed, at the newest epoch: the other server suffices', async (_mode, wish) => {
      const device = await behind({ publisherKey })
      const { there, epochs } = device
      there.network.misbehave[liar] = lie(device, liar)
      const { life, map } = await there.opened(wish)
      expect(map.epoch).toBe(5)
      for (const index of [0, 3, 14]) expect(await there.drive(map.at(index))).toEqual(epochs[4]!.byIndex[index])
      expect(life.events.map(({ type }) => type)).toEqual(['resumed', 'updated', 'updated', 'updated'])
      await there.drive(map.sync())
      expect(map.epoch).toBe(5)
    })
  })

  test.each<[string, Partial<OpenWithOptions>, number]>([
    ['what it shows', {}, 2],
    ['what it shows', { publisherKey }, 5],
    ['its manifests', {}, 5],
    ['its manifests', { publisherKey }, 5],
  ])(
    'drips %s: the copy opens after two seconds, and goes on where the other suffices (%j)',
    async (what, key, epoch) => {
      const { there, epochs } = await behind(key)
      there.blobMs = 0
      let dripping = 0
      const path = what === 'its manifests' ? '/v1/manifest' : '/v1/info'
      there.network.misbehave[liar] = on(path, (_genuine, { init }) => {
        const body = new ReadableStream<Uint8Array>({
          async start(controller) {
            let over = false
            dripping++
            init.signal?.addEventListener('abort', () => {
              if (!over) controller.error(init.signal?.reason)
              if (!over) dripping--
              over = true
            })
            while (!over) {
              controller.enqueue(new Uint8Array(1))
              await there.clock.wait(5_000)
            }
          },
        })
        return new Response(body)
      })
      const start = there.clock.now()
      const { map } = await there.opened({ mode: 'local', ...key })
      expect(there.clock.now() - start).toBeLessThanOrEqual(2_000)
      for (const index of [0, 3, 14]) {
        expect(await there.drive(map.at(index))).toEqual(epochs[map.epoch! - 1]!.byIndex[index])
      }
      await there.drive(map.sync().catch(() => {}))
      expect(map.epoch).toBe(epoch)
      for (const index of [0, 3, 14]) {
        expect(await there.drive(map.at(index))).toEqual(epochs[epoch - 1]!.byIndex[index])
      }
      await there.drive(map.close())
      expect(dripping).toBe(0)
    },
  )

  test.each(lies)('%s: a copy that has expired does not open', async (_what, lie) => {
    const device = await behind({ publisherKey }, brief)
    const { there } = device
    there.clock.sleep(1000 * DAY)
    there.network.misbehave[liar] = lie(device, liar)
    const life = there.life()
    expect(await life.failure(life.openIdle(options))).toMatchObject({
      code: 'signature',
      message: expect.stringContaining('expired'),
    })
  })

  test.each(lies)('%s: nor does one whose signature was never seen, while the other is away', async (_what, lie) => {
    const device = await behind({})
    const { there, epochs } = device
    there.network.misbehave[liar] = lie(device, liar)
    there.network.misbehave[liar === A ? B : A] = () => problem(503, 'not_ready')
    const life = there.life()
    expect(['signature', 'tampered']).toContain((await life.failure(life.openIdle(options))).code)
    // Once it is there, the copy follows.
    there.network.misbehave[liar === A ? B : A] = undefined
    const map = await life.open(options)
    expect(map.epoch).toBe(5)
    expect(await outcome(there, map)).toEqual(epochs[4]!.byIndex[3])
  })
})

describe.each([A, B])('%s', liar => {
  /** Copies at epoch 1, of servers that have forgotten it. What the liar shows then is genuine once, and nothing from then on. */
  async function withholding(wish: Partial<OpenWithOptions>) {
    const epochs = epochsOf(5)
    const there = of(...epochs.slice(0, 1))
    await stored(there, { ...wish, mode: 'local' })
    there.network.replaceOnBoth(epochs[3]!)
    there.network.publishOnBoth(epochs[4]!)
    there.network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(epochs[4]!))
    let asked = 0
    there.network.misbehave[liar] = (seen, genuine) => {
      if (seen.path.startsWith('/v1/blobs/')) return problem(503, 'not_ready')
      if (seen.path !== '/v1/info' || asked++ === 0) return genuine
      return Response.json(withOtherHashes(there.network.info(liar)))
    }
    return { there, epochs }
  }

  test.each(['local', 'auto'] as const)(
    'withholds a new download: a copy from which no update leads on opens, answers and stays (mode %s)',
    async mode => {
      const { there, epochs } = await withholding({})
      for (let visit = 0; visit < 2; visit++) {
        const { map } = await there.opened({ mode })
        await there.drive(map.sync().catch(() => {}))
        expect(await there.drive(map.at(3))).toEqual(epochs[0]!.byIndex[3])
        await there.drive(map.close())
      }
      there.network.misbehave[liar] = undefined
      const { map } = await there.opened({ mode })
      await there.drive(map.sync())
      expect(await there.drive(map.at(3))).toEqual(epochs[4]!.byIndex[3])
    },
  )

  test.each(['local', 'auto'] as const)(
    'cannot withhold a new download of what is signed: the other server suffices (mode %s)',
    async mode => {
      const { there, epochs } = await withholding({ publisherKey })
      const { map } = await there.opened({ mode, publisherKey })
      await there.drive(map.sync())
      expect(await there.drive(map.at(3))).toEqual(epochs[4]!.byIndex[3])
    },
  )
})
