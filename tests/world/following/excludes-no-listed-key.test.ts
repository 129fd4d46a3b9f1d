// Filters through random epochs. `npm run soak -- following --epochs 10000` follows more of them.

import { afterAll, expect, test } from 'vitest'
import { THOROUGH } from '../../support/thorough.js'
import { get } from '../questions.js'
import { throughEpochs } from './filters.js'
import { leaveGrounds, Stage } from './stage.js'
import { linesOf } from './truth.js'

afterAll(leaveGrounds)

const EPOCHS = THOROUGH ? 300 : 30

test.each([1, 2])(`no listed key is excluded, through ${EPOCHS} random epochs: seed %i`, async seed => {
  const { epochs, generations, kills } = await throughEpochs(seed, EPOCHS)
  expect(epochs).toBeGreaterThanOrEqual(EPOCHS)
  expect([generations, kills].every(count => count > 0)).toBe(true)
})

test('a minute after servers have shown what they withhold, a new key is asked for', async () => {
  await Stage.play({}, async stage => {
    const tab = await stage.open({ mode: 'instant', filter: { cover: 0, meanwhile: 'ask' } })
    await stage.pass(1_000)
    expect(tab.map!.filter!.state).toBe('ready')
    for (const number of stage.all) await stage.server(number).become({ is: 'withholds' })
    const value = new TextEncoder().encode('come')
    await stage.publish(linesOf([{ op: 'add', key: 'late', value }]))
    await stage.pass(100_000)
    const call = tab.ask(get('late'))
    await stage.done(call)
    expect(call.outcome).toEqual({ value: [value] })
  })
})
