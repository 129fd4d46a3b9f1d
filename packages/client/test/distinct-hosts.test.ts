// One address in two spellings is one host, and whoever runs it sees both queries.

import { expect, test } from 'vitest'
import { assertParties, parseServers } from '../src/servers/pair.js'

test.each([
  ['https://192.0.2.7', 'https://[::ffff:192.0.2.7]'],
  ['https://192.0.2.7:1', 'https://[::ffff:c000:207]:2'],
])('%s and %s are refused', (a, b) => {
  expect(() => assertParties(parseServers([a, b]), 2, {})).toThrow(expect.objectContaining({ code: 'usage' }))
})
