// `npm run soak -- living` begins here: the schedules of living.test.ts, as many as one likes.
//
//   npm run soak -- living                   1 000 000 schedules from a random seed on, until interrupted or one fails
//   npm run soak -- living 300               so many
//   npm run soak -- living --seed 7          the schedule of seed 7, with all that happens in it
//   npm run soak -- living 300 --seed 7      so many from seed 7 on
//   npm run soak -- living 20 --processes    servers are processes of their own, with LMDB files, and are killed with
//                                            SIGKILL; what happens when is then up to the machine as well

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { layFoundations } from './databases.js'
import { report, simulate } from './simulate.js'

/** Returns the exit code. */
export async function soak(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { seed: { type: 'string' }, processes: { type: 'boolean' } },
  })
  const replay = values.seed !== undefined && positionals.length === 0
  const first = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const count = replay ? 1 : Number(positionals[0] ?? 1_000_000)
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(count)) throw new Error('expected numbers')

  const { foundations, folder, remove } = await layFoundations()
  const met = new Map<string, number>()
  let steps = 0
  let told = performance.now()
  const tell = (schedules: number) =>
    console.log(`${schedules} schedules from seed ${first} on, ${steps} steps${replay ? '' : `: ${summary(met)}`}`)
  try {
    for (let seed = first; seed < first + count; seed++) {
      const outcome = await simulate(seed, { foundations, folder, processes: values.processes === true })
      steps += outcome.steps
      for (const [what, times] of outcome.counts) met.set(what, (met.get(what) ?? 0) + times)
      if (replay) console.log(outcome.trace.join('\n'))
      if (outcome.violation !== undefined) {
        console.log(replay ? outcome.violation : report(outcome))
        return 1
      }
      if (performance.now() - told < 20_000) continue
      told = performance.now()
      tell(seed - first + 1)
    }
    tell(count)
    console.log('and nothing wrong')
    return 0
  } finally {
    await remove()
  }
}

function summary(met: ReadonlyMap<string, number>): string {
  return ['lookups: done', 'records looked up', 'epochs', 'tabs killed', 'servers killed', 'checks']
    .map(what => `${met.get(what) ?? 0} ${what}`)
    .join(', ')
}
