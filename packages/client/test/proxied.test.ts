// Apps keep maps in deep proxies, such as Vue's `ref` and `reactive`: all of a map works there.

import { expect, test } from 'vitest'
import { fakeMap } from '../src/testing/fake-map.js'
import { keyed, NAMES, openedOn } from './support/harness.js'

/** As Vue's: members are read with the proxy as receiver, and objects come out as proxies. */
function deep<T extends object>(target: T): T {
  return new Proxy(target, {
    get(target, name, receiver) {
      const member = Reflect.get(target, name, receiver)
      return typeof member === 'object' && member !== null ? deep(member) : member
    },
  })
}

test('a map in a deep proxy answers, tells, and closes', async () => {
  const { harness, map } = await openedOn(keyed())
  const { value } = deep({ value: map })
  expect([value.size, value.epoch, value.mode, value.storage, value.condemned]).toEqual([
    20,
    1,
    'full',
    'memory',
    undefined,
  ])
  expect(await harness.drive(value.getText(NAMES[3]!))).toBe('vvv')
  expect(await harness.drive(value.hasMany([NAMES[1]!, 'absent']))).toEqual([true, false])
  expect(value.stats.lookups).toBe(2)
  value.on('condemned', () => {})()
  const { get } = value
  expect(await harness.drive(get('absent'))).toBeUndefined()
  await harness.drive(value.reset())
  await harness.drive(value[Symbol.asyncDispose]())
  await expect(value.get('absent')).rejects.toMatchObject({ code: 'closed' })
})

test('a fakeMap does so too, and its members can be replaced', async () => {
  const map = fakeMap({ otter: 'river' })
  const value = deep(map)
  value.publish([{ op: 'add', key: 'auk', value: 'cliff' }])
  expect([await value.getText('auk'), Object.keys(map)]).toEqual(['cliff', []])
  map.getText = async () => 'another'
  expect(await value.getText('auk')).toBe('another')
})
