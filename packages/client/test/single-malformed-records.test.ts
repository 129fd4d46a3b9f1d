// Whoever makes a database may be the server that is asked from hints, and then nobody else reads it through. A record in it
// that is none fails the lookups of its key, and nothing but them: a hint that ended with one, or went on later than others do,
// would tell the maker who has asked for it.

import { describe, expect, test } from 'vitest'
import { settle } from './support/clock.js'
import { Harness, keyless } from './support/harness.js'
import { A, B, type Network } from './support/network.js'

const PLANTED = 7
const RECORD_BYTES = 2 + 5
const plantedIn = () =>
  keyless(15, {
    variable: true,
    // A value longer than any.
    planted: records => records.fill(200, PLANTED * RECORD_BYTES, PLANTED * RECORD_BYTES + 1),
  })

const one = { servers: [A], integrity: 'server', mode: 'single' } as const

describe.each([
  ['one server', one],
  ['two that may be one', { servers: [A, B], collusion: 'tolerated', mode: 'single' }],
] as const)('a record that is none, of %s', (_what, servers) => {
  /** What servers see of four lookups, and of what is done behind them. */
  async function seen(index: number, lookups: number) {
    const { network } = plantedIn()
    const harness = new Harness(network)
    const map = await harness.open({ ...servers, lookups, storage: 'memory' })
    for (const asked of [1, 2, index, 3]) {
      const found = harness.drive(map.at(asked))
      if (asked !== PLANTED) await found
      else
        await expect(found).rejects.toMatchObject({ code: 'protocol', message: expect.stringContaining('malformed') })
      await settle() // what is made behind is made
    }
    await harness.drive(map.close())
    return { traffic: traffic(network), condemned: map.condemned, left: map.lookupsLeft }
  }

  const traffic = (network: Network) => network.seen.map(({ server, path, body }) => `${server} ${path} ${body.length}`)

  test.each([
    ['are many', 60],
    ['run out with it', 3],
    ['are made anew behind it', 4],
  ])('is no record, and shows to nobody: hints %s', async (_what, lookups) => {
    const usual = await seen(5, lookups)
    expect(usual.condemned).toBeUndefined()
    expect(await seen(PLANTED, lookups)).toEqual(usual)
  })
})
