// Watched keys: what is told, and what is sent.

import { describe, expect, test } from 'vitest'
import type { Change, WatchOptions } from '../src/index.js'
import type { OpenWithOptions } from '../src/testing.js'
import { rest } from './support/clock.js'
import type { Database } from './support/database.js'
import { Harness, keyed, NAMES } from './support/harness.js'
import { add, change, Living, remove } from './support/living.js'
import { A } from './support/network.js'
import { publisherKey, signatureOf } from './support/signed.js'

const MODES: readonly [string, Partial<OpenWithOptions>][] = [
  ['instant', { mode: 'instant' }],
  ['full', { mode: 'full' }],
  ['local', { mode: 'local' }],
  ['single', { mode: 'single', servers: [A], lookups: 60, integrity: 'server' }],
  ['auto', { mode: 'auto' }],
]

const KEY = NAMES[3]!
const ABSENT = 'nobody.example'
const text = (value: Uint8Array | undefined) => value && new TextDecoder().decode(value).replaceAll('\0', '')

/** A change, for comparing. */
const told = ({ value, before, epoch, how }: Change) => `${text(before)} → ${text(value)} at ${epoch}, ${how}`

async function opened(options: Partial<OpenWithOptions> = {}, living = signed()) {
  const harness = new Harness(living.network)
  const map = await harness.open({ storage: 'memory', push: false, publisherKey, ...options })
  const heard: string[] = []
  const marks: string[] = []
  const watch = (key = KEY, how: WatchOptions = {}) => {
    const save = (mark: string) => void marks.push(mark)
    return harness.drive(map.watch(key, change => void heard.push(told(change)), { save, ...how }))
  }
  return { living, harness, map, heard, marks, watch, drive: harness.drive }
}

/** Two servers, whose epochs are signed. */
function signed(): Living & { readonly sign: (...of: Parameters<Living['publish']>) => Database } {
  const { network, database } = keyed()
  const living = new Living(network, database)
  network.signatures.push(signatureOf(database))
  const sign = (...of: Parameters<Living['publish']>) => {
    const published = living.publish(...of)
    network.signatures.push(signatureOf(published))
    return published
  }
  return Object.assign(living, { sign })
}

describe.each(MODES)('mode %s', (_, options) => {
  test('a change, a deletion and a key that comes are told, and nothing else', async () => {
    const { living, map, heard, watch, drive } = await opened(options)
    const own = await watch()
    const absent = await watch(ABSENT)
    expect([own.epoch, text(absent.value)]).toEqual([1, undefined])
    const before = text(own.value)
    for (const batch of [[change(KEY, 'new')], [change(NAMES[4]!, 'x')], [remove(KEY)], [add(ABSENT, 'come')]]) {
      living.sign(batch)
      await drive(map.sync())
      await rest()
    }
    expect(heard).toEqual([`${before} → new at 2, list`, 'new → undefined at 4, list', 'undefined → come at 5, list'])
    expect([text(own.value), text(absent.value), own.epoch]).toEqual([undefined, 'come', 5])
    expect(text(await drive(map.get(ABSENT)))).toBe('come')
  })
})
