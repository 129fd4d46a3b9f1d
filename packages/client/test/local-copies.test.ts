// Mode `local` with a publisher's key, and with servers that are away or lie: a lookup sends nothing, and what one server says does
// not keep a stored copy from opening (docs/threat-model.md).

import { describe, expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { settle } from './support/clock.js'
import type { Database } from './support/database.js'
import { A, B, bytesOf, hang, type Misbehave, ok, on, problem } from './support/network.js'
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
  // As servers do: they hand on the newest epoch's alone.
  there.network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(epochs.at(-1)!))
  return there
}

const lies: [string, Misbehave, string[]][] = [
  [
    'shows another manifest of its epoch',
    on('/v1/manifests', async genuine => {
      const bytes = await bytesOf(genuine)
      bytes[56]! ^= 1 // expiry
      return ok(bytes)
    }),
    ['servers_disagree', 'servers_disagree'],
  ],
  [
    'claims to be behind it, and shows no signature',
    on('/v1/', (genuine, { path }) => {
      const behind = { code: 'epoch_unknown', message: '', generation: 1, epoch: 1 }
      return path.startsWith('/v1/manifests') ? Response.json(behind, { status: 404 }) : genuine
    }),
    [],
  ],
]

describe.each([A, B])('%s', liar => {
  describe.each(lies)('%s: the copy opens and answers', (_what, lie, incidents) => {
    test.each<[string, Partial<OpenWithOptions>]>([
      ['mode local', { mode: 'local' }],
      ['mode auto', { mode: 'auto' }],
      ['mode local, signed', { mode: 'local', publisherKey }],
      ['mode auto, signed', { mode: 'auto', publisherKey }],
    ])('%s', async (_mode, wish) => {
      const key = 'publisherKey' in wish ? { publisherKey } : {}
      const there = await behind(key)
      there.network.misbehave[liar] = lie
      const { life, map } = await there.opened(wish)
      await there.checkValues(map, [0, 3, 14])
      expect(map.epoch).toBe(2)
      expect(map.stats.incidents.map(({ code }) => code)).toEqual(incidents)
      expect(life.events.map(({ type }) => type)).toEqual(['resumed'])

      there.network.misbehave[liar] = undefined
      await there.drive(map.sync())
      expect(map.epoch).toBe(5)
    })
  })

  test.each([{}, { publisherKey }])('drips its manifests: the copy opens meanwhile (%j)', async key => {
    const there = await behind(key)
    let dripping = 0
    there.network.misbehave[liar] = on('/v1/manifests', (_genuine, { init }) => {
      const body = new ReadableStream<Uint8Array>({
        async start(controller) {
          dripping++
          init.signal?.addEventListener('abort', () => {
            if (dripping > 0) controller.error(init.signal?.reason)
            dripping = 0
          })
          while (dripping > 0) {
            controller.enqueue(new Uint8Array(1))
            await there.clock.wait(5_000)
          }
        },
      })
      return new Response(body)
    })
    const { map } = await there.opened({ mode: 'local', ...key })
    expect(dripping).toBe(1)
    await there.checkValues(map, [0, 3, 14])
    await there.drive(map.close())
    expect(dripping).toBe(0)
  })

  test('but one that has expired answers nothing', async () => {
    const there = await behind({ publisherKey }, brief)
    there.clock.sleep(1000 * DAY)
    there.network.misbehave[liar] = lies[0]![1]
    const { life, map } = await there.opened(options)
    expect(await life.failure(map.at(3))).toMatchObject({
      code: 'signature',
      message: expect.stringContaining('expired'),
    })
  })

  test('nor does one whose signature was never seen open beside a contradiction', async () => {
    const there = await behind({})
    there.network.misbehave[liar] = lies[0]![1]
    const life = there.life()
    expect((await life.failure(life.openIdle(options))).code).toBe('servers_disagree')
  })
})

describe.each([A, B])('%s', liar => {
  test.each<Partial<OpenWithOptions>>([
    { mode: 'local' },
    { mode: 'auto' },
    { mode: 'local', publisherKey },
    { mode: 'auto', publisherKey },
  ])('withholds a new download: a copy from which no update leads on opens, answers and stays (%j)', async wish => {
    const { publisherKey } = wish
    const epochs = epochsOf(5)
    const there = of(...epochs.slice(0, 1))
    await stored(there, { mode: 'local', ...(publisherKey && { publisherKey }) })
    // Both have forgotten epoch 1.
    there.network.replaceOnBoth(epochs[3]!)
    there.network.publishOnBoth(epochs[4]!)
    there.network.signatures.splice(0, Number.POSITIVE_INFINITY, signatureOf(epochs[4]!))
    let asked = 0
    there.network.misbehave[liar] = on('/v1/manifest', async (genuine, { path }) => {
      if (path !== '/v1/manifest' || asked++ === 0) return genuine
      const bytes = await bytesOf(genuine)
      bytes[56]! ^= 1 // expiry
      return ok(bytes)
    })
    for (let visit = 0; visit < 2; visit++) {
      const { map } = await there.opened(wish)
      await there.drive(map.sync().catch(() => {}))
      expect(await there.drive(map.at(3))).toEqual(epochs[0]!.byIndex[3])
      await there.drive(map.close())
    }
    there.network.misbehave[liar] = undefined
    const { map } = await there.opened(wish)
    await there.drive(map.sync())
    expect(await there.drive(map.at(3))).toEqual(epochs[4]!.byIndex[3])
  })
})
