// One schedule, by its seed.

import { join } from 'node:path'
import { Chance } from '../state/harness/chance.js'
import type { Foundation } from './databases.js'
import { ProcessServer } from './processes.js'
import { LocalServer, SERVERS, type ServerName } from './servers.js'
import { anyWeather, type Weather } from './weather.js'
import { type Surroundings, Violation, World } from './world.js'

export interface Outcome {
  readonly seed: number
  /** undefined: nothing was wrong */
  readonly violation: string | undefined
  readonly steps: number
  /** what happened how often */
  readonly counts: ReadonlyMap<string, number>
  /** what happened, one line each */
  readonly trace: readonly string[]
}

export interface Setting {
  readonly foundations: readonly Foundation[]
  /** an empty folder, for servers that keep their database in files */
  readonly folder: string
  readonly weather?: Weather
  /** servers are processes of their own */
  readonly processes?: boolean
}

/** The same seed, weather and databases: the same schedule, unless servers are processes or write files. */
export async function simulate(
  seed: number,
  { foundations, folder, weather: given, processes = false }: Setting,
): Promise<Outcome> {
  const chance = new Chance(seed)
  const weather = given ?? anyWeather(chance, processes)
  const foundation = foundations[weather.foundation]!
  const own = join(folder, `${seed}`)
  const start = (processes ? startProcesses : startLocally)(foundation, weather, own)
  const world = new World(chance, { foundation, weather, start })
  const violation = await world.run().then(
    () => undefined,
    (error: Error) => (error instanceof Violation ? error.message : `${error.stack}`),
  )
  return { seed, violation, steps: world.steps, counts: world.counts, trace: world.trace }
}

function startLocally(
  foundation: Foundation,
  { history, lingerHours, lmdb }: Weather,
  folder: string,
): Surroundings['start'] {
  return async (slowly, onFailure) => {
    const start = (name: ServerName, letter: string) =>
      LocalServer.start({
        ...{ foundation, history, lingerHours, onFailure },
        folder: lmdb ? join(folder, letter) : undefined,
        slowly: what => slowly(name, what),
      })
    const [a, b] = SERVERS
    return { [a]: await start(a, 'a'), [b]: await start(b, 'b') }
  }
}

function startProcesses(
  foundation: Foundation,
  { history, lingerHours }: Weather,
  folder: string,
): Surroundings['start'] {
  return async () => {
    const start = (letter: string) =>
      ProcessServer.start({ foundation, history, lingerHours, folder: join(folder, letter) })
    const [a, b] = SERVERS
    return { [a]: await start('a'), [b]: await start('b') }
  }
}

/** What was wrong, and what led to it. */
export function report({ seed, violation, trace }: Outcome, lines = 80): string {
  const cut = trace.length > lines ? [`… ${trace.length - lines} lines before`] : []
  const replay = `npm run soak -- living --seed ${seed} shows all of it`
  return [`${violation}`, ...cut, ...trace.slice(-lines), `seed ${seed}: ${violation}`, replay].join('\n')
}
