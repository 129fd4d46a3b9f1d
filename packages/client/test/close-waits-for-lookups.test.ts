// close() in the very moment in which a lookup gets its turn: it has begun then, and close() waits for it (P5). Whoever asks
// and closes at once has the value, or hears that the map is closed; never that something inside has failed, because what
// the lookup works on was freed under it.

import { expect, test } from 'vitest'
import { hex } from './support/harness.js'
import { records, World } from './support/world.js'

/** Turns of the microtask queue after which close() is called: beyond the last of them the lookup has its lock for long. */
const TURNS = 60

test.each(['full', 'instant'])('mode %s: closed after any turn, a lookup ends as ever or has not begun', async mode => {
  const outcomes = []
  for (let turns = 0; turns < TURNS; turns++) {
    const w = new World({ seed: 1 + turns })
    const map = await w.life().open({ mode, proofs: 'auto', push: false } as never)
    await w.drive(map.at(1))
    const answer = map.at(3).then(
      value => hex(value!),
      (error: { code: string }) => error.code,
    )
    for (let i = 0; i < turns; i++) await Promise.resolve()
    const closed = map.close()
    outcomes.push(await w.drive(answer))
    await w.drive(closed)
    await w.auditor.assertSound()
  }
  const expected = ['closed', hex(records.byIndex[3]!)]
  expect(outcomes.filter(outcome => !expected.includes(outcome))).toEqual([])
})
