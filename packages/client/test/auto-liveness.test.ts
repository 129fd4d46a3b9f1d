// Mode `auto` does not get stuck, and calls that send nothing stay silent (I3, P5, docs/threat-model.md).

import { INSTANT_PATH } from '@keyhush/protocol'
import { expect, test } from 'vitest'
import type { KeyhushMap } from '../src/index.js'
import { MemoryStore, type OpenWithOptions, type StateStore } from '../src/testing.js'
import { rest, settle } from './support/clock.js'
import { buildDatabase, someValues } from './support/database.js'
import { core, sameOnBoth } from './support/harness.js'
import { A, B, on, problem } from './support/network.js'
import { type Life, World } from './support/world.js'

const openedBy = async (life: Life, options: Partial<OpenWithOptions> = {}): Promise<KeyhushMap> => {
  const map = await life.open({ mode: 'auto', push: false, ...options } as Partial<OpenWithOptions>)
  await rest()
  return map
}

/** A map whose preparation of a state has failed, with lookups meanwhile: the preparation may be repeated. */
async function afterAFailure() {
  const w = new World()
  const release: (() => void)[] = []
  w.network.both(
    on('/v1/blobs/', async () => {
      await new Promise<void>(resolve => void release.push(resolve))
      return problem(404, 'not_found')
    }),
  )
  const map = await openedBy(w.life())
  for (const index of [1, 2, 3]) await w.drive(map.at(index))
  for (let i = 0; i < 4; i++) {
    for (const go of release.splice(0)) go()
    await rest()
  }
  expect(map.mode).toBe('instant')
  return { w, map, seen: w.network.seen.length }
}

test.each<[string, (map: KeyhushMap) => Promise<unknown>]>([
  ['that was withdrawn before it began', map => map.at(3, { signal: AbortSignal.abort() })],
  ['for an index that cannot be', map => map.at(1_000_000)],
])('a call %s makes no traffic, also after a preparation has failed', async (_what, call) => {
  const { w, map, seen } = await afterAFailure()
  await rest()
  expect(w.network.seen.length).toBe(seen) // nothing by itself
  await call(map).catch(() => {})
  await rest()
  expect(w.network.seen.slice(seen).map(({ path }) => path)).toEqual([])
})

test('servers without instant lookups: the preparation is repeated after a failure', async () => {
  const w = new World()
  w.network.both(({ path }, genuine) => {
    if (path === INSTANT_PATH) return problem(404, 'not_found')
    return path.startsWith('/v1/blobs/') ? problem(404, 'not_found') : genuine
  })
  const map = await openedBy(w.life())
  await rest()
  // The fault is gone. The servers still offer no instant lookups, as with `serve --no-instant`.
  w.network.both(on(INSTANT_PATH, () => problem(404, 'not_found')))
  for (let i = 0; i < 20; i++) {
    await w.drive(map.at(i).catch(() => {}))
    await rest()
  }
  expect(map.mode).toBe('local')
})

test('a map opens although its storage, which is only preferred, cannot be read', async () => {
  const failing = (): StateStore =>
    new (class extends MemoryStore {
      override async read(): Promise<never> {
        throw new Error('the disk is gone')
      }
    })({ durable: true })
  const opened = async (mode: string) => {
    const w = new World()
    const life = w.life({
      openStore: async (_identity, preference) =>
        preference === 'memory'
          ? { store: new MemoryStore(), storage: 'memory' }
          : { store: failing(), storage: 'best-effort' },
    })
    await life.open({ storage: 'preferred', mode, push: false } as never)
  }
  await opened('full') // as docs/threat-model.md has it: the store, twice in a row
  await opened('auto')
})

test('close() does not wait for a lock that another tab holds, also while a state is prepared', async () => {
  const large = buildDatabase(core, { values: someValues(300, 64 * 1024), partitions: 8 })
  const w = new World({ network: sameOnBoth(large), database: large })
  const pays = (_core: unknown, _manifest: unknown, lookups: number) => lookups >= 12
  const map = await w.life().open({ mode: 'auto', push: false }, { pays })
  expect(map.mode).toBe('instant')
  // Another tab takes the lock and freezes.
  const other = w.life()
  const name = `keyhush ${[A, B].sort().join(' ')}`
  void other.environment.locks.hold(name, 45_000, () => new Promise<void>(() => {}))
  for (let i = 0; i < 12; i++) {
    let done = false
    const answer = map.at(i).then(() => {
      done = true
    })
    while (!done) await settle()
    await answer
  }
  await rest()
  expect(map.mode).toBe('instant')
  const before = w.clock.now()
  await w.drive(map.close())
  expect(w.clock.now() - before).toBeLessThan(45_000)
})

test('reset() of an instant map begins anew with what the servers have now', async () => {
  const w = new World()
  const map = await openedBy(w.life(), { mode: 'instant' } as never)
  expect(map.size).toBe(1000)
  // The publisher has built the database again, under another name.
  const id = core.databaseId(new TextEncoder().encode('rebuilt'))
  const rebuilt = buildDatabase(core, {
    values: someValues(500, 8),
    partitions: 16,
    manifest: { databaseId: id },
  })
  w.network.replaceOnBoth(rebuilt)
  await w.drive(map.reset())
  expect(map.size).toBe(500)
})
