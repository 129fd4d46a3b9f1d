// `npm run soak -- following`: lives, drawn from seeds.
//
//   npm run soak -- following                 10 000 lives from a random seed on; all broken rules are counted
//   npm run soak -- following --lives 300     so many
//   npm run soak -- following --seed 7        the life of seed 7, with all that happens in it
//   npm run soak -- following --lives 300 --seed 7
//   npm run soak -- following --epochs 10000  filters through so many epochs (filters.ts), 500 a seed
//   npm run soak -- following --twins         each life twice, about other keys: servers must see the same

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { throughEpochs } from './filters.js'
import { layGrounds } from './foundations.js'
import { live, report } from './life.js'
import { leaveGrounds } from './stage.js'

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string' },
      lives: { type: 'string' },
      epochs: { type: 'string' },
      twins: { type: 'boolean' },
    },
  })
  const replay = values.seed !== undefined && values.lives === undefined
  const first = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const lives = replay ? 1 : Number(values.lives ?? 10_000)
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(lives)) throw new Error('expected numbers')
  if (values.epochs !== undefined) return await filters(first, Number(values.epochs))
  const grounds = await layGrounds()
  const broken = new Map<string, number[]>()
  const met = new Map<string, number>()
  // A rejection that nobody handles ends an app's process.
  const unhandled: unknown[] = []
  process.on('unhandledRejection', error => unhandled.push(error))
  let told = performance.now()
  const begun = told
  const tell = (count: number) => {
    const each = ((performance.now() - begun) / count).toFixed(0)
    console.log(`${count} lives from seed ${first} on, ${each} ms each`)
    for (const [rule, seeds] of broken) console.log(`  ${rule}: ${seeds.length}, as of seeds ${seeds.slice(0, 8)}`)
  }
  try {
    for (let seed = first; seed < first + lives; seed++) {
      const outcome = await live(seed, grounds).catch(error => {
        throw new Error(`seed ${seed}`, { cause: error })
      })
      for (const [what, times] of outcome.counts) met.set(what, (met.get(what) ?? 0) + times)
      const rules = new Set(outcome.violations.map(({ rule }) => rule))
      for (const error of unhandled.splice(0)) {
        if (!broken.has('unhandled')) console.log(`seed ${seed}: nobody handles`, error)
        rules.add('unhandled')
      }
      if (values.twins === true) {
        const [first, second] = [await live(seed, grounds, 'first'), await live(seed, grounds, 'second')]
        if (first.transcript.join() !== second.transcript.join()) rules.add('twins')
      }
      if (replay) console.log(outcome.trace.join('\n'))
      else if (rules.size > 0 && broken.size === 0) console.log(report(outcome))
      for (const rule of rules) broken.set(rule, [...(broken.get(rule) ?? []), seed])
      if (performance.now() - told < 20_000) continue
      told = performance.now()
      tell(seed - first + 1)
    }
    tell(lives)
    if (!replay)
      console.log(
        [...met]
          .sort()
          .map(([what, times]) => `${times} ${what}`)
          .join(', '),
      )
    console.log(broken.size === 0 ? 'and nothing wrong' : 'rules were broken')
    return broken.size === 0 ? 0 : 1
  } finally {
    await grounds.remove()
  }
}

const EPOCHS_A_SEED = 500

/** Throws if a rule is broken. */
async function filters(first: number, epochs: number): Promise<number> {
  const sum = new Map<string, number>()
  try {
    for (let seed = first; (sum.get('epochs') ?? 0) < epochs; seed++) {
      const met = await throughEpochs(seed, EPOCHS_A_SEED)
      for (const [what, times] of Object.entries(met)) sum.set(what, (sum.get(what) ?? 0) + times)
      console.log(`seeds ${first} to ${seed}:`, Object.fromEntries(sum))
    }
  } finally {
    await leaveGrounds()
  }
  console.log('and nothing wrong')
  return 0
}
