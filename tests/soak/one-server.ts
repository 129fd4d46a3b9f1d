// `npm run soak -- one-server`: a server without a download, and its publisher, which are killed under load.
//
//   npm run soak -- one-server                    200 epochs and 20 000 lookups, from a random seed
//   npm run soak -- one-server 50 5000 --seed 7   so many, from seed 7

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { KEYS, lookupsIn, type Outcome, simulate } from './killed-server.js'

const TOLD_EPOCHS = 10

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { seed: { type: 'string' } } })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const [epochs, lookups] = [Number(positionals[0] ?? 200), Number(positionals[1] ?? 20_000)]
  if (![seed, epochs, lookups].every(Number.isSafeInteger)) throw new Error('expected numbers')
  console.log(`seed ${seed}, ${KEYS} keys`)
  const tell = (outcome: Outcome) => {
    if (outcome.epochs % TOLD_EPOCHS === 0) console.log(described(outcome))
  }
  console.log(described(await simulate(seed, epochs, lookups, tell)))
  console.log('and nothing wrong')
  return 0
}

function described(outcome: Outcome): string {
  const { epochs, generations, lookups, opened, killed, repeated, longestSeconds, deadlineSeconds } = outcome
  const listed = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count}`)
      .join(', ')
  return [
    `${epochs} epochs in ${generations} generations; killed: ${listed(killed)}`,
    `${lookupsIn(lookups)} lookups: ${listed(lookups)}; maps opened: ${opened}; calls repeated: ${listed(repeated)}`,
    `the longest lookup took ${longestSeconds.toFixed(1)} s, and had ${deadlineSeconds.toFixed(1)} s`,
  ].join('\n')
}
