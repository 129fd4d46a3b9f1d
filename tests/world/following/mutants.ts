// Mutants: each takes one rule out of the client, the server or the publisher, and a life finds that. A mutant names the rule, the file
// with a life that is written by hand and finds it, or seeds of drawn lives, and what it shows.

import type { Plugin } from 'vite'
import type { Bug, Compiler } from '../living/mutants.js'
import type { live as liveIn } from './life.js'
import type { runAll } from './plays.js'
import type { grounds as groundsIn, leaveGrounds } from './stage.js'

interface Mutant extends Bug {
  /** the rule that is missing, by its name in the design: A1, B4, P1, C2 … */
  readonly rule: string
  /** a life that is written by hand, which passes without the bug … */
  readonly play?: { readonly file: string; readonly test: RegExp }
  /** … or seeds of lives, which break no rule without it */
  readonly seeds?: readonly number[]
  /** what it shows */
  readonly shows: RegExp
}

export const MUTANTS: readonly Mutant[] = [
  {
    rule: 'B2',
    name: 'time asleep counts',
    file: 'packages/client/src/platform/clock.ts',
    find: 'asleep += at - seen - STEP_MS',
    replace: 'asleep += 0',
    play: { file: 'ends-in-time.test.ts', test: /^instant: a frozen page/ },
    shows: /expected \d+ to be/,
  },
  {
    rule: 'A8',
    name: 'servers tell nobody that an epoch is signed',
    file: 'server/src/database/updatable.ts',
    find: '    // Clients that insist on signatures could not follow when the epoch was new.\n    this.#tell(this.#newest.manifest)\n',
    replace: '',
    play: { file: 'hears-liars.test.ts', test: /^mode instant/ },
    shows: /expected 1 to be 2/,
  },
]

const THREAD = new URL('../../../server/dist/workers/thread.js', import.meta.url).href

/** Lives that are written by hand get another Vitest. A server's threads, which Node loads, are those that were built. */
export const recording: Plugin = {
  name: 'plays',
  enforce: 'pre',
  transform: (code, id) => {
    if (/following\/[\w-]+\.test\.ts$/.test(id)) return code.replace("from 'vitest'", "from './plays.js'")
    if (!id.endsWith('server/src/workers/workers.ts')) return null
    return code.replace("new URL('./thread.js', import.meta.url)", `new URL(${JSON.stringify(THREAD)})`)
  },
}

/** What the lives of a mutant show, on the sources with its bug, or as they are; undefined: nothing. */
export async function hunted(compiler: Compiler, mutant: Mutant, bug: Bug | undefined): Promise<string | undefined> {
  const { play, seeds = [] } = mutant
  const folder = '/tests/world/following/'
  if (play !== undefined) {
    type Entry = { readonly runAll: typeof runAll; readonly load: (path: string) => Promise<unknown> }
    return await compiler.withBug<Entry, string | undefined>(bug, `${folder}entry.ts`, async module => {
      await module.load(play.file)
      return await module.runAll(play.test)
    })
  }
  type Entry = { live: typeof liveIn; grounds: typeof groundsIn; leaveGrounds: typeof leaveGrounds }
  return await compiler.withBug<Entry, string | undefined>(bug, `${folder}entry.ts`, async module => {
    try {
      for (const seed of seeds) {
        const { violations } = await module.live(seed, await module.grounds())
        if (violations.length > 0) return `seed ${seed}: ${violations[0]!.rule}: ${violations[0]!.what}`
      }
      return undefined
    } finally {
      await module.leaveGrounds()
    }
  })
}
