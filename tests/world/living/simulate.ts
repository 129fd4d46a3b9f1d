// One schedule, by its seed.

import { join } from 'node:path'
import { Chance } from '../chance.js'
import { SERVERS, type ServerName } from '../network.js'
import { report as reportOf, Violation } from '../simulation.js'
import type { Foundation } from './databases.js'
import { anyFaults, type FaultProfile } from './faults.js'
import { ProcessServer } from './processes.js'
import { LocalServer } from './servers.js'
import { type Setup, World } from './world.js'

export interface Outcome {
  readonly seed: number
  /** undefined: nothing was wrong */
  readonly violation: string | undefined
  readonly steps: number
  /** of the world, in the times with faults */
  readonly ticks: number
  /** what happened how often */
  readonly counts: ReadonlyMap<string, number>
  /** what happened, one line each */
  readonly trace: readonly string[]
}

export interface Setting {
  readonly foundations: readonly Foundation[]
  /** an empty folder, for servers that keep their database in files */
  readonly folder: string
  readonly faults?: FaultProfile
  /** servers are processes of their own */
  readonly processes?: boolean
}

/** The same seed, faults and databases: the same schedule, unless servers are processes or write files. */
export async function simulate(
  seed: number,
  { foundations, folder, faults: given, processes = false }: Setting,
): Promise<Outcome> {
  const chance = new Chance(seed)
  const faults = given ?? anyFaults(chance, processes)
  const foundation = foundations[faults.foundation]!
  const own = join(folder, `${seed}`)
  const start = (processes ? startProcesses : startLocally)(foundation, faults, own)
  const world = new World(chance, { foundation, faults, start })
  const violation = await world.run().then(
    () => undefined,
    (error: Error) => (error instanceof Violation ? error.message : `${error.stack}`),
  )
  return { seed, violation, steps: world.steps, ticks: world.ticks, counts: world.counts, trace: world.trace }
}

function startLocally(
  foundation: Foundation,
  { history, lingerHours, lmdb }: FaultProfile,
  folder: string,
): Setup['start'] {
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

function startProcesses(foundation: Foundation, { history }: FaultProfile, folder: string): Setup['start'] {
  return async () => {
    const start = (letter: string) => ProcessServer.start({ foundation, history, folder: join(folder, letter) })
    const [a, b] = SERVERS
    return { [a]: await start('a'), [b]: await start('b') }
  }
}

/** What was wrong, and what led to it. */
export function report(outcome: Outcome): string {
  return reportOf(outcome, `npm run soak -- living --seed ${outcome.seed} shows all of it`)
}
