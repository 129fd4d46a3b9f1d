// `sync()` resolves at the newest epoch that a server shows signed, or says who lacks it.

import { afterAll, expect, test } from 'vitest'
import { leaveGrounds, Stage } from './stage.js'

afterAll(leaveGrounds)

const TOLERATED = { collusion: 'tolerated' } as const

test('mode local with a key: one honest server is enough to move', async () => {
  await Stage.play({}, async stage => {
    await stage.server(0).become({ is: 'frozen', changes: 0 })
    const tab = await stage.open({ push: false })
    for (let i = 0; i < 3; i++) await stage.publish()
    await stage.done(tab.sync())
    expect(tab.map!.epoch).toBe(stage.newest)
    const fresh = await stage.open()
    expect(fresh.map!.epoch).toBe(stage.newest)
  })
})

test.each(['instant', 'full', 'single'] as const)('mode %s: sync() names the frozen server', async mode => {
  await Stage.play({}, async stage => {
    const tab = await stage.open({ mode, ...(mode === 'single' && TOLERATED), push: false })
    await stage.server(1).become({ is: 'frozen', changes: 0 })
    for (let i = 0; i < 3; i++) await stage.publish()
    const error = await stage.fails(tab.sync())
    expect(error.message).toContain(stage.server(1).name)
  })
})

test.each(['local', 'instant', 'full'] as const)(
  'mode %s with push: an event says who holds the map back, if anyone does',
  async mode => {
    await Stage.play(
      {},
      async stage => {
        const tab = await stage.open({ mode })
        await stage.server(1).become({ is: 'frozen', changes: 0 })
        for (let i = 0; i < 3; i++) await stage.publish()
        await stage.pass(10_000)
        const behind = tab.events.filter(({ type }) => type === 'behind')
        if (mode === 'local') expect([tab.map!.epoch, behind]).toEqual([stage.newest, []])
        else expect(behind.at(-1)).toMatchObject({ epoch: stage.newest, servers: [stage.server(1).name] })
      },
      ['answered'],
    )
  },
)

test('mode single, at least two of three: a frozen server holds nothing back', async () => {
  await Stage.play({ servers: 3 }, async stage => {
    const tab = await stage.open({ mode: 'single', atLeast: 2, push: false })
    await stage.server(2).become({ is: 'frozen', changes: 0 })
    for (let i = 0; i < 3; i++) await stage.publish()
    await stage.done(tab.sync())
    expect(tab.map!.epoch).toBe(stage.newest)
  })
})
