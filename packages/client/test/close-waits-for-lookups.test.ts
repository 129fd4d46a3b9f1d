// close() at the moment in which a lookup gets its turn: the lookup has begun, and close() waits for it (P5). It returns its value, or
// fails because the map is closed, but never because its memory was freed.

import { expect, test } from 'vitest'
import { hex } from './support/harness.js'
import { records, World } from './support/world.js'

/** Turns of the microtask queue before close(): after the last the lookup has had its lock for long. */
const TURNS = 60

test.each(['full', 'instant'])(
  'mode %s: closed after any turn, a lookup returns its value or has not begun',
  async mode => {
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
    }
    const expected = ['closed', hex(records.byIndex[3]!)]
    expect(outcomes.filter(outcome => !expected.includes(outcome))).toEqual([])
  },
)
