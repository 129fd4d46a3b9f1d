// A browser that is killed, again and again, and comes back with the same profile.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Browser, Page } from 'puppeteer-core'
import { launchBrowser } from '../../../tools/browsers.mjs'
import * as lies from '../../faults/lies.js'
import { Chance } from '../harness/chance.js'
import { lookUp, openMap, PARTITIONS, RECORD_BYTES, recordAt, type Stage } from './stage.js'
import { assertNothingReused } from './transcripts.js'

/** Without a word to anybody: the browser and all its processes. */
export async function kill(browser: Browser): Promise<void> {
  const { pid, exitCode, signalCode } = browser.process()!
  if (exitCode !== null || signalCode !== null) return
  const gone = new Promise(resolve => browser.process()!.once('exit', resolve))
  process.kill(-pid!, 'SIGKILL')
  await gone
}

/**
 * Kills a browser in the middle of lookups, `times` over; each time its successor finds everything in order. Most of them
 * ask for the same record: a query made anew instead of sent again would be almost the same, and be seen.
 */
export async function killMidLookup(stage: Stage, seed: number, times: number): Promise<void> {
  const chance = new Chance(seed)
  const favourite = chance.below(stage.records)
  const profile = join(stage.folder, `lookups ${seed}`)
  let pending = 0
  for (let life = 0; life <= times; life++) {
    const browser = await launchBrowser('chromium', { profile })
    try {
      const page = await stage.page(browser)
      const events = await openMap(page, stage.servers)
      assert.equal(events.length, life === 0 ? 0 : 1)
      if (life > 0) assert.match(events[0]!, /^resumed hint (true|false)$/)
      if (events.includes('resumed hint true')) pending++
      const indices = [favourite, chance.below(stage.records), favourite]
      assert.deepEqual(await lookUp(page, indices), indices.map(recordAt))
      if (life === times) break
      await dieLookingUp(stage, browser, page, favourite, chance)
    } finally {
      await kill(browser)
    }
  }
  const { queries, resent } = assertNothingReused(stage.proxies)
  assert(queries > 3 * times && pending > 0 && resent > 0)
  // The database was downloaded once, in the first life.
  assert.equal(stage.bytesOf('/v1/blobs/'), stage.records * RECORD_BYTES)
}

async function dieLookingUp(stage: Stage, browser: Browser, page: Page, index: number, chance: Chance): Promise<void> {
  const wrong: string[] = []
  await page.exposeFunction('tell', (value: string) => {
    if (value !== recordAt(index)) wrong.push(value)
  })
  const silenced = chance.below(3) // neither, or one of them
  const quiet = stage.proxies[silenced]
  const until = new Promise<void>(resolve => {
    let left = chance.between(1, 12)
    if (quiet === undefined) setTimeout(resolve, chance.below(300))
    else {
      quiet.lie = lies.about('/v1/answer', (...exchange) => {
        if (--left > 0) return exchange[0]
        setTimeout(resolve, chance.below(20))
        return lies.silent(...exchange)
      })
    }
  })
  const asking = page.evaluate(async index => {
    for (;;) globalThis.tell(new TextDecoder().decode(await globalThis.opened!.map.at(index)).trimEnd())
  }, index)
  asking.catch(() => {}) // its page is gone
  await until
  await kill(browser)
  stage.calm()
  assert.deepEqual(wrong, [])
}

/** Kills a browser in the middle of the offline phase, `times` over (at most 5), and then lets it finish. */
export async function killMidDownload(stage: Stage, seed: number, times: number): Promise<void> {
  const chance = new Chance(seed)
  const profile = join(stage.folder, `downloads ${seed}`)
  for (const proxy of stage.proxies) proxy.seen.length = 0
  for (let life = 0; life <= times; life++) {
    const browser = await launchBrowser('chromium', { profile })
    try {
      const page = await stage.page(browser)
      const opening = openMap(page, stage.servers)
      if (life === times) {
        assert.deepEqual(await opening, ['resumed download false'])
        const indices = Array.from({ length: 5 }, () => chance.below(stage.records))
        assert.deepEqual(await lookUp(page, indices), indices.map(recordAt))
      } else {
        opening.catch(() => {}) // its page is gone
        await passBlobs(stage, chance.between(1, 3))
        await delay(chance.below(30))
      }
    } finally {
      await kill(browser)
      stage.calm()
    }
  }
  const [database, partition] = [stage.records * RECORD_BYTES, (stage.records / PARTITIONS) * RECORD_BYTES]
  assert(stage.bytesOf('/v1/blobs/') < 1.1 * database + times * partition)
}

/** Resolves when so many blobs have been asked for. No more of them are given out. */
function passBlobs(stage: Stage, count: number): Promise<void> {
  return new Promise(resolve => {
    let left = count
    for (const proxy of stage.proxies) {
      proxy.lie = lies.about('/v1/blobs/', (...exchange) => {
        if (--left === 0) resolve()
        return left < 0 ? lies.silent(...exchange) : exchange[0]
      })
    }
  })
}
