// Bringing a hint to the next epoch, while the effect of the lookup before is still being stored.

import { expect, test } from 'vitest'
import { MemoryStore } from '../src/testing.js'
import { deferred, settle } from './support/clock.js'
import { Harness } from './support/harness.js'
import { edit, livingKeyless } from './support/living.js'

/** A store on disk that takes its time over effects. */
class SlowStore extends MemoryStore {
  readonly calls: string[] = []
  readonly stored = deferred()

  override async commit(...effect: Parameters<MemoryStore['commit']>): Promise<{ journalBytes: number }> {
    this.calls.push('commit')
    await this.stored.promise
    const committed = await super.commit(...effect)
    this.calls.push('committed')
    return committed
  }

  override advance(...update: Parameters<MemoryStore['advance']>): Promise<{ journalBytes: number }> {
    this.calls.push('advance')
    return super.advance(...update)
  }
}

// Otherwise the store refuses one of the two, and the state is read anew.
test('an epoch is applied to the state once the effect before it is stored, and never before', async () => {
  const living = livingKeyless()
  const store = new SlowStore({ durable: true })
  const openStore = async () => ({ store, storage: 'best-effort' }) as const
  const [manifests, answers] = [deferred(), deferred()]
  const fetch = async (url: string, init: RequestInit) => {
    if (url.includes('/v1/manifests?')) await manifests.promise
    if (url.endsWith('/v1/answer')) await answers.promise
    return living.network.fetch(url, init)
  }
  const harness = new Harness(living.network, 1, { openStore, fetch })
  const map = await harness.open({ storage: 'required' })
  const old = living.newest
  living.publish([edit(3, 'three')])
  const synced = map.sync()
  await settle()
  const found = map.at(3)
  await settle()
  manifests.resolve()
  await settle()
  answers.resolve() // the epoch is applied next, under the same lock
  expect(await harness.drive(found)).toEqual(old.byIndex[3])
  await settle()
  expect(store.calls).toEqual(['commit'])
  store.stored.resolve()
  await harness.drive(synced)
  expect(store.calls).toEqual(['commit', 'committed', 'advance'])
  expect(await harness.drive(map.at(3))).toEqual(living.newest.byIndex[3])
})
