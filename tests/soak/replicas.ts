// `npm run soak -- replicas` begins here.
//
//   npm run soak -- replicas                 40 epochs, from a random seed
//   npm run soak -- replicas 400 --seed 7    so many, from seed 7
//   npm run soak -- replicas 10 --large 400000
//                                            batches of so many edits instead, and so many kills

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { draws } from '../world/chance.js'
import { simulate } from './killed-replicas.js'
import { largeBatches } from './large-batches.js'

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { seed: { type: 'string' }, large: { type: 'string' } },
  })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const rounds = Number(positionals[0] ?? 40)
  if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(rounds)) throw new Error('expected numbers')
  console.log(`seed ${seed}`)
  if (values.large !== undefined) {
    await largeBatches(Number(values.large), rounds, draws(seed))
    return 0
  }
  const { lookups, repeated, epochs, kills, raced } = await simulate(seed, rounds)
  console.log(
    `${lookups} lookups, ${repeated} calls repeated; ${epochs} epochs; ${kills} processes killed; ${raced} steps of a hint raced for`,
  )
  console.log('and nothing wrong')
  return 0
}
