// What an app can find out without reading about it first: who has failed and with what, where a URL leads, whether a map
// can still be used, and what becomes of it.

import { describe, expect, test } from 'vitest'
import { estimate, type MapEvent, type ServerError } from '../src/index.js'
import { Harness, keyed, keyless, NAMES, openedOn } from './support/harness.js'
import { A, B, flip, type Misbehave, problem } from './support/network.js'
import { World } from './support/world.js'

const refused =
  (why: string): Misbehave =>
  () =>
    Promise.reject(new TypeError(why))
const causeOf = (error: ServerError | undefined) => error && [error.server, (error.cause as Error | undefined)?.message]

describe('both servers are away', () => {
  const cut = ({ misbehave }: { misbehave: Record<string, Misbehave | undefined> }) => {
    misbehave[A] = refused('cable of A')
    misbehave[B] = refused('cable of B')
  }
  /** One is named as the other's companion, in words too, and each has its cause. */
  const expectBoth = (error: ServerError) => {
    const both = [causeOf(error), causeOf(error.other)].sort()
    expect(both).toEqual([
      [A, 'cable of A'],
      [B, 'cable of B'],
    ])
    expect(error.message).toContain(A)
    expect(error.message).toContain(B)
  }

  test.each(['full', 'local', 'instant', 'auto'] as const)('open() in mode %s says so of both', async mode => {
    const { network } = keyed()
    cut(network)
    const harness = new Harness(network)
    expectBoth((await harness.failure(harness.open({ mode }))) as unknown as ServerError)
  })

  test('estimate() does', async () => {
    const { network } = keyed()
    network.misbehave[A] = () => problem(404, 'not_found')
    network.misbehave[B] = () => problem(404, 'not_found')
    const error = await estimate([A, B], { fetch: network.fetch }).catch(error => error)
    expect([error.code, error.server, error.other.server].sort()).toEqual([A, B, 'protocol'].sort())
  })

  test.each(['full', 'instant'] as const)('a lookup in mode %s does', async mode => {
    const { network, database, harness, map } = await openedOn(keyed(), { mode })
    cut(network)
    expectBoth((await harness.failure(map.get(NAMES[0]!))) as unknown as ServerError)
    network.both(undefined)
    expect(await harness.drive(map.get(NAMES[0]!))).toEqual(database.contents.values[0])
  })

  test('one server alone is named alone', async () => {
    const { network, harness, map } = await openedOn(keyed())
    network.misbehave[B] = refused('cable of B')
    const error = (await harness.failure(map.get(NAMES[0]!))) as unknown as ServerError
    expect([causeOf(error), error.other]).toEqual([[B, 'cable of B'], undefined])
    expect(error.message).not.toContain(A)
  })

  const single = { servers: [A], integrity: 'server' } as const
  test.each([
    ['full', 'full', { proofs: 'tags' }],
    ['full', 'full', { proofs: 'merkle' }],
    ['full', 'auto', {}],
    ['full', 'auto', { proofs: 'auto' }],
    ['single', 'single', single],
    ['local', 'auto', {}],
  ] as const)(
    'a stored map of mode %s opens in mode %s, %o; lookups say why, and work again',
    async (made, mode, options) => {
      const world = new World()
      await world.drive((await world.life().open({ ...options, mode: made })).close())
      cut(world.network)
      const { life, map } = await world.opened({ ...options, mode })
      expect([map.mode, map.size, map.condemned]).toEqual([made, world.database.manifest.records, undefined])
      const what = made === 'local' ? 'copy' : 'hint'
      expect(life.events).toEqual([{ type: 'resumed', what, pending: false }])
      if (made === 'local') await world.checkValues(map)
      else {
        // The fence is asked first, of the server that keeps it, and alone.
        for (const index of [3, 3, 4]) {
          const error = (await life.failure(map.at(index))) as unknown as ServerError
          expect([error.code, ...causeOf(error)!]).toEqual([
            'network',
            error.server,
            `cable of ${error.server === A ? 'A' : 'B'}`,
          ])
        }
      }
      world.network.both(undefined)
      await world.checkValues(map)
    },
  )
})

test('for a URL with a wrong path the error names the right paths, and repeats nothing else that the server says', async () => {
  const { network } = keyed()
  const reply =
    (databases: unknown): Misbehave =>
    () =>
      new Response(JSON.stringify({ code: 'not_found', message: 'buy this', databases }), { status: 404 })
  const messageFor = async (databases: unknown) => {
    network.misbehave[B] = reply(databases)
    return (await estimate([A, B], { fetch: network.fetch }).catch(error => error)).message
  }
  expect(await messageFor(['/', '/names'])).toMatch(/has databases at \/, \/names: is the path of the URL right\?$/)
  for (const databases of [[], undefined, ['buy this'], ['/<b>buy this']]) {
    const message = await messageFor(databases)
    expect(message).toMatch(/is this the URL of a Keyhush server\?|or check the URL/)
    expect(message).not.toContain('buy')
  }
})

test('events of a type are told until one unsubscribes, or the map is closed', async () => {
  const { network, harness, map } = await openedOn(keyless(), { mode: 'full' })
  const other = await harness.open({ mode: 'full' })
  const seen: string[] = []
  const note = (who: string) => (event: MapEvent) => void seen.push(`${who} ${event.type}`)
  const offs = [
    map.on('condemned', note('first')),
    map.on('condemned', note('second')),
    other.on('condemned', note('other')),
  ]
  map.on('updated', note('of another type'))
  map.on('condemned', () => offs[1]!()) // before the second's turn: it hears nothing, though the event is under way
  expect(() => map.on('updated', 5 as never)).toThrow('expected a function')
  const lie = async () => {
    network.misbehave[A] = flip(100)
    await harness.failure(other.at(1))
    network.misbehave[A] = undefined
    await harness.drive(other.reset())
  }
  await lie()
  expect(seen.splice(0).sort()).toEqual(['first condemned', 'other condemned', 'second condemned'])
  await lie()
  expect(seen.splice(0).sort()).toEqual(['first condemned', 'other condemned'])
  await harness.drive(map.close())
  await lie()
  expect(seen).toEqual(['other condemned'])
  expect(() => map.on('updated', () => {})).toThrow(expect.objectContaining({ code: 'closed' }))
})
