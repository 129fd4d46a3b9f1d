// The maker of a database can plant a malformed record in it. A lookup of its key fails, and nothing else changes: an app that
// calls reset() then, or a hint that ends, would show the maker, who may run a server, which key was looked up.

import { describe, expect, test } from 'vitest'
import { settle } from './support/clock.js'
import { keyless, openedOn } from './support/harness.js'
import { A, B, type Network } from './support/network.js'

const PLANTED = 7
const RECORD_BYTES = 2 + 5
const plantedIn = () =>
  keyless(15, {
    variable: true,
    // A value longer than any.
    planted: records => records.fill(200, PLANTED * RECORD_BYTES, PLANTED * RECORD_BYTES + 1),
  })

describe.each(['instant', 'local', 'auto'] as const)('mode %s', mode => {
  test('a malformed record is the database’s fault, and is asked for like any other', async () => {
    const { network } = plantedIn()
    const { harness, map } = await openedOn({ network }, { mode, storage: 'memory' })
    await harness.drive(map.at(1)) // in mode auto a download begins
    await settle()
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
  })
})

const one = { servers: [A], integrity: 'server', mode: 'single' } as const

describe.each([
  ['one server', one],
  ['two that may be one', { servers: [A, B], collusion: 'tolerated', mode: 'single' }],
] as const)('a malformed record of %s', (_what, servers) => {
  /** What servers see of four lookups, and of what is done behind them. */
  async function seen(index: number, lookups: number) {
    const { network } = plantedIn()
    const { harness, map } = await openedOn({ network }, { ...servers, lookups, storage: 'memory' })
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
  ])('fails its lookup, and no server can tell: hints %s', async (_what, lookups) => {
    const usual = await seen(5, lookups)
    expect(usual.condemned).toBeUndefined()
    expect(await seen(PLANTED, lookups)).toEqual(usual)
  })
})
