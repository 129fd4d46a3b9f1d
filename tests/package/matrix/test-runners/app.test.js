import { open } from '@keyhush/client'
import { entries } from '../entries.js'
import { probe } from '../probe.js'

test('looks up', async () => {
  expect(await probe(open, entries)).toBe('works')
})
