// One schedule, by its seed.

import { NOTHING, type Plant } from './plants.js'
import type { Weather } from './weather.js'
import { Violation, World } from './world.js'

export interface Outcome {
  readonly seed: number
  /** undefined: nothing was wrong */
  readonly violation: string | undefined
  /** until the weather was calm */
  readonly stormSteps: number
  /** what happened how often */
  readonly counts: ReadonlyMap<string, number>
  /** what happened, one line each */
  readonly trace: readonly string[]
}

/** The same seed, plant and weather: the same schedule. */
export async function simulate(seed: number, plant: Plant = NOTHING, weather?: Weather): Promise<Outcome> {
  const world = new World(seed, plant, weather)
  const violation = await world.run().then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof Violation) return error.message
      throw error
    },
  )
  const { stormSteps, counts, trace } = world
  return { seed, violation, stormSteps, counts, trace }
}

/** What was wrong, and what led to it. */
export function report({ seed, violation, trace }: Outcome, lines = 60): string {
  const cut = trace.length > lines ? [`… ${trace.length - lines} lines before`] : []
  const replay = `npm run soak -- --seed ${seed} shows all of it`
  return [`${violation}`, ...cut, ...trace.slice(-lines), `seed ${seed}: ${violation}`, replay].join('\n')
}
