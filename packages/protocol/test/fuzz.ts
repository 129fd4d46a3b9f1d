// `npm run fuzz -- wire` begins here: TypeScript's decoders, each on as many inputs or for as long as is asked.

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { DECODERS, inputs, refused } from './decoders.js'

/** Returns the exit code. */
export async function wire(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { seconds: { type: 'string' }, runs: { type: 'string' }, seed: { type: 'string' } },
  })
  const seed = values.seed === undefined ? randomInt(2 ** 31) : Number(values.seed)
  const limits =
    values.runs === undefined
      ? { numRuns: Number.MAX_SAFE_INTEGER, interruptAfterTimeLimit: 1000 * Number(values.seconds ?? 60) }
      : { numRuns: Number(values.runs) }
  let all = 0
  for (const [name, decode] of Object.entries(DECODERS)) {
    const property = fc.property(inputs, bytes => void refused(() => decode(bytes)))
    const { failed, numRuns, counterexample, errorInstance, interrupted } = fc.check(property, { ...limits, seed })
    if (failed && !interrupted) {
      const [bytes] = counterexample as [Uint8Array]
      console.log(`${name}, seed ${seed}: ${Buffer.from(bytes).toString('hex')}\n${String(errorInstance)}`)
      return 1
    }
    all += numRuns
    console.log(`${name}: ${numRuns} executions`)
  }
  console.log(`${all} executions from seed ${seed} on, and nothing found`)
  return 0
}
