// `npm run soak -- uniformity` begins here: the statistics of uniformity.test.ts, of more lookups and other seeds.
//
//   npm run soak -- uniformity              until interrupted or one is suspicious
//   npm run soak -- uniformity 3            three seeds
//   npm run soak -- uniformity --seed x     this one

import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { wasmSubject } from './subjects.js'
import { suspicious, usageNames } from './uniformity.js'

const LOOKUPS = 20_000

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { seed: { type: 'string' } } })
  const count = values.seed === undefined ? Number(positionals[0] ?? Number.POSITIVE_INFINITY) : 1
  const subject = await wasmSubject()
  for (let i = 0; i < count; i++) {
    const seed = values.seed ?? randomUUID()
    for (const usage of usageNames) {
      const found = suspicious(subject, usage, { seed, lookups: LOOKUPS })
      for (const { name, pValue } of found) console.log(`seed ${seed}, ${usage}: ${name}, p = ${pValue}`)
      if (found.length > 0) return 1
    }
    console.log(`seed ${seed}: ${LOOKUPS} lookups of each of ${usageNames.length} usages, nothing suspicious`)
  }
  return 0
}
