import { open } from '@keyhush/client'
import { open as openInstant } from '@keyhush/client/instant'
import { fakeMap } from '@keyhush/client/testing'
import { servers } from '../servers.js'

test.each([open, openInstant])('open() names what jsdom lacks', async open => {
  const missing = await open({ servers }).catch(error => error)
  expect(missing).toMatchObject({ name: 'UnsupportedError', reason: 'platform' })
  expect(missing.message).toContain('TextDecoder, TextEncoder, fetch')
})

test('fakeMap() names what jsdom lacks', () => {
  expect(() => fakeMap({ otter: 'river' })).toThrow('a platform that has TextDecoder, TextEncoder')
})
