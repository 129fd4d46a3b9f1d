// What the core costs by itself, as figures against targets.

import { loadCore } from '@keyhush/wasm'
import { discardInstance } from '@keyhush/wasm/instance'
import { ComputeBench, PROOFS } from './compute.js'
import { type Options, target } from './options.js'
import type { Figure, Section } from './report.js'
import { pseudorandomBytes } from './stage.js'

/** Most changes of one batch; small databases have fewer. */
const EDITS = 500
const MANY_EDITS = 100_000

export function editsIn(records: number): { readonly some: number; readonly many: number } {
  return { some: Math.min(EDITS, records >> 1), many: Math.min(MANY_EDITS, records >> 1) }
}

export async function computing(options: Options): Promise<Section[]> {
  const { shape, repeats, lookups } = options
  const core = await loadCore()
  const bench = new ComputeBench(core, pseudorandomBytes(shape.records * shape.recordBytes), shape.recordBytes)
  const times = <T>(work: () => T) => Array.from({ length: repeats }, work)
  const { some, many } = editsIn(shape.records)

  const digests = times(() => bench.digest())
  const kinds = PROOFS.map(proofs => {
    const offline = times(() => bench.offline(proofs))
    const costs = bench.lookups(proofs, repeats * lookups)
    return { proofs, offline, costs, stateBytes: bench.stateBytes(proofs) }
  })
  const edits = bench.updates('edit', some, 3 * repeats)
  const manyEdits = bench.updates('edit', many, 3)
  bench.free()
  discardInstance(core)

  const figures: Figure[] = [
    ...kinds.flatMap(({ proofs, offline, costs, stateBytes }): Figure[] => [
      { name: 'offline phase, client', column: proofs, unit: 'ms', samples: offline },
      { name: 'lookup, client', column: proofs, unit: 'ms', target: target(options, '≤', 0.5), samples: costs.client },
      { name: 'lookup, server', column: proofs, unit: 'ms', samples: costs.answer },
      {
        name: 'lookup, bodies',
        column: proofs,
        unit: 'KiB',
        target: target(options, '≤', proofs === 'tags' ? 1.3 : 18),
        samples: [costs.bytes / 2 ** 10],
      },
      {
        name: 'state',
        column: proofs,
        unit: 'MiB',
        target: proofs === 'merkle' ? target(options, '<', 6) : undefined,
        samples: [stateBytes / 2 ** 20],
      },
      {
        name: `${some} edits, client`,
        column: proofs,
        unit: 'ms',
        target: target(options, '<', 2),
        samples: edits.client[proofs].ms,
      },
      { name: `${many} edits, client`, column: proofs, unit: 'ms', samples: manyEdits.client[proofs].ms },
    ]),
    { name: 'digests, server', unit: 'ms', target: target(options, '≤', 250), samples: digests },
    { name: `${some} edits, server`, unit: 'ms', samples: edits.serverMs },
    { name: `${many} edits, server`, unit: 'ms', samples: manyEdits.serverMs },
  ]
  return [{ title: 'Computing', figures }]
}
