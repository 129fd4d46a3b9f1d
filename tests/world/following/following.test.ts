// Lives of maps, servers and a publisher, drawn from seeds (life.ts has what happens, rules.ts what must hold). `npm run soak -- following`
// runs more of them.

import { afterAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { live, report } from './life.js'
import { grounds, leaveGrounds } from './stage.js'

afterAll(leaveGrounds)

/** From here on even six lives meet all of it. */
const FIRST = 35
const LIVES = THOROUGH ? 40 : 6
const TWINS = THOROUGH ? 15 : 1

/** What lives must meet; without it they prove nothing. */
const MET = [
  ...['open: done', 'lookup: done', 'sync: done', 'close: done', 'publish: done', 'publish: killed', 'event: updated'],
  ...['event: outdated', 'event: resumed', 'event: mode', 'mood: silent', 'mood: frozen', 'mood: drips', 'mood: lies'],
  ...['event: filter', 'mood: withholds', 'watch: done', 'change: list'],
]

test(`${LIVES} lives: calls end in time and say what is right, and nobody is left behind`, async () => {
  const met = new Set<string>()
  for (let seed = FIRST; seed < FIRST + LIVES; seed++) {
    const outcome = await live(seed, await grounds())
    if (outcome.violations.length > 0) expect.fail(report(outcome))
    for (const what of outcome.counts.keys()) met.add(what)
  }
  expect(MET.filter(what => !met.has(what))).toEqual([])
})

/** In this life a run waits for a server that was put back, until the calm, and would go on there. */
test('runs of the publisher end with the calm: nobody signs what they would begin', async () => {
  expect((await live(9113, await grounds())).violations).toEqual([])
})

test(`${TWINS} twins that look up other keys: the servers see the same`, async () => {
  for (let seed = 1; seed <= TWINS; seed++) {
    const [first, second] = [await live(seed, await grounds(), 'first'), await live(seed, await grounds(), 'second')]
    expect(second.transcript, `seed ${seed}`).toEqual(first.transcript)
  }
})

test('a seed is a life: the same again', async () => {
  for (const seed of THOROUGH ? [3, 37] : [3]) {
    const [once, again] = [await live(seed, await grounds()), await live(seed, await grounds())]
    expect(again.trace, `seed ${seed}`).toEqual(once.trace)
  }
})
