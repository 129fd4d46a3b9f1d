// One rule says which mode serves: for `keyhush plan`, the SDK's estimate(), the demo's page (which shows core.plan) and the map.

import type { Manifest } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { adviceFor, chooseScheme, paysAfter } from '../../packages/client/src/scheme/table.js'
import { runKeyhush } from '../../server/test/command.js'

const workload = fc.record({
  records: fc.oneof(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 20_000_000 })),
  valueBytes: fc.integer({ min: 1, max: 80 }),
  keyed: fc.boolean(),
  servers: fc.integer({ min: 1, max: 5 }),
  lookupsPerDay: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 1_000_000 })),
})

test('for any list and any use, plan, estimate() and the map agree on the mode, and on when a download pays', async () => {
  const core = await loadCore()
  fc.assert(
    fc.property(workload, ({ servers, lookupsPerDay, ...list }) => {
      const { layout, merkle, modes, recommended } = core.plan({ ...list, servers, lookupsPerDay })
      const manifest = { ...layout, directoryBytes: merkle.directoryBytes } as Manifest
      const instant = servers > 1
      const asked = { instant, servers, lookupsPerDay }
      expect(adviceFor(core, manifest, { ...asked, mayDownload: true })).toEqual(recommended)
      expect(modes.map(({ mode }) => mode)).toContain(recommended.mode)

      const download = chooseScheme(core, manifest, { lookups: 0, apart: servers }).name
      expect(recommended.download).toBe(download)
      if (!instant) {
        expect(recommended).toEqual({ mode: download, download, paysAfter: 0 })
        return
      }
      const pays = (lookups: number) => lookups > 0 && paysAfter(core, manifest, lookups, servers)
      expect(recommended.mode).toBe(pays(30 * lookupsPerDay) ? download : 'instant')
      const least = recommended.paysAfter
      expect([pays((least ?? 1) - 1), pays(least ?? 2 ** 53)]).toEqual([false, least !== undefined])
      expect(adviceFor(core, manifest, { ...asked, mayDownload: false })).toEqual({ mode: 'instant', download })
    }),
    { numRuns: 300 },
  )
})

test('the command prints it', async () => {
  const core = await loadCore()
  const of = async (records: number, servers: number, lookupsPerDay: number) => {
    const args = ['--servers', `${servers}`, '--lookups-per-day', `${lookupsPerDay}`]
    const printed = await runKeyhush('plan', '--records', `${records}`, '--value-bytes', '32', ...args)
    const { recommended, reason } = core.plan({ records, valueBytes: 32, servers, lookupsPerDay })
    expect(printed).toContain(`\nRecommended: ${recommended.mode}`)
    expect(printed).toContain(`\n${reason}\n`)
  }
  for (const records of [5_000, 4_500_000]) {
    for (const servers of [1, 2, 3]) for (const lookups of [0, 2, 5_000]) await of(records, servers, lookups)
  }
})
