// Whoever makes a database can plant a record in it that is none. What a lookup of it fails with must not send the app to
// reset(), which shows: nothing here is at fault where all that was read was checked by itself.

import { describe, expect, test } from 'vitest'
import { Harness, keyless } from './support/harness.js'

const PLANTED = 7
const RECORD_BYTES = 2 + 5

describe.each(['instant', 'local', 'auto'] as const)('mode %s', mode => {
  test('a record that is none is the database’s fault, and is asked for like any other', async () => {
    const { network } = keyless(15, {
      variable: true,
      // A value longer than any.
      planted: records => records.fill(200, PLANTED * RECORD_BYTES, PLANTED * RECORD_BYTES + 1),
    })
    const harness = new Harness(network)
    const map = await harness.open({ mode, storage: 'memory' })
    const seen = []
    for (const index of [5, PLANTED]) {
      const before = network.seen.length
      const work = map.at(index)
      if (index !== PLANTED) await harness.drive(work)
      else {
        const error = await harness.failure(work)
        expect(error).toMatchObject({ code: 'protocol', message: expect.stringContaining('malformed record') })
        expect(error.message).not.toContain('reset')
      }
      seen.push(network.seen.slice(before).map(({ server, path, body }) => `${server} ${path} ${body.length}`))
    }
    expect(seen[1]).toEqual(seen[0])
    expect(map.condemned).toBeUndefined()
    await harness.drive(map.close())
  })
})
