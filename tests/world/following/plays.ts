// Stands for Vitest where a mutant is hunted (mutants.ts): the lives written by hand are recorded, and run one after the other.

import { expect } from 'vitest'

export { expect }

type Play = (...parameters: never[]) => unknown

const recorded: { readonly name: string; readonly play: () => unknown }[] = []
const ends: (() => unknown)[] = []

export function afterAll(end: () => unknown): void {
  ends.push(end)
}

export function test(name: string, play: Play): void {
  recorded.push({ name, play: play as () => unknown })
}

/** Names have %s and %i in order, and `$is`-like names of members; enough to find a test by its name. */
test.each =
  (cases: readonly unknown[]) =>
  (name: string, play: Play): void => {
    for (const each of cases) {
      const parameters = (Array.isArray(each) ? each : [each]) as never[]
      let used = 0
      const full = name.replaceAll(/%[si]/g, () => String(parameters[used++]))
      recorded.push({ name: full, play: () => play(...parameters) })
    }
  }

/** Runs the recorded lives whose name matches. Returns the first failure. */
export async function runAll(which: RegExp): Promise<string | undefined> {
  const plays = recorded.filter(({ name }) => which.test(name))
  if (plays.length === 0) throw new Error(`no life has a name like ${which}`)
  try {
    for (const { name, play } of plays) {
      try {
        await play()
      } catch (error) {
        return `${name}: ${(error as Error).message}`
      }
    }
    return undefined
  } finally {
    for (const end of ends) await end()
  }
}
