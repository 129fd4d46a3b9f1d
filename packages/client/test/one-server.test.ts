// Mode `instant` with one server is an experiment: what `open()` demands before any traffic.

import { expect, test } from 'vitest'
import { type OpenOptions, open, UsageError } from '../src/index.js'

const servers = ['https://one.example']
const publisherKey = 'ab'.repeat(32)
const experimental = true
const fetch = async (): Promise<Response> => {
  throw new Error('nothing is to be sent')
}

test.each<[string, Omit<OpenOptions, 'fetch'>, RegExp]>([
  ['experimental', { servers, publisherKey, mode: 'instant' }, /expected experimental: true .*'single'/],
  ['a key', { servers, mode: 'instant', experimental }, /publisherKey: expected one with experimental/],
  [
    'a hint that the server did not make itself',
    { servers, publisherKey, integrity: 'server', mode: 'instant', experimental },
    /integrity: expected none with experimental/,
  ],
  ['a key, not trust', { servers, integrity: 'server', mode: 'instant', experimental }, /integrity: expected none/],
  ['a key in mode auto', { servers, integrity: 'server', experimental }, /integrity: expected none/],
  [
    'mode instant or auto',
    { servers, publisherKey, mode: 'single', experimental },
    /experimental: .* got mode 'single'/,
  ],
  ['one server', { servers: [...servers, 'https://b.example'], publisherKey, experimental }, /got several/],
  [
    'one server that is named as one',
    { servers: [...servers, 'https://b.example'], publisherKey, collusion: 'tolerated', experimental },
    /experimental: expected one server/,
  ],
  [
    'true or false',
    { servers, publisherKey, experimental: 'yes' as never },
    /expected experimental to be true or false/,
  ],
])('it demands %s', async (_what, options, message) => {
  const refused = open({ ...options, fetch })
  await expect(refused).rejects.toThrow(message)
  await expect(refused).rejects.toBeInstanceOf(UsageError)
})
