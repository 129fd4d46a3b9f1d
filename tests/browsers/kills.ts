// A browser that is killed, again and again, and comes back with the same profile.
//
// About once in 400 kills Chromium's IndexedDB loses all files of the origin. A witness in the same origin, which Keyhush does
// not touch, tells this from a client that loses its state.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Browser, Page } from 'puppeteer-core'
import { launchBrowser } from '../../tools/browsers.mjs'
import * as lies from '../support/lies.js'
import { Chance } from '../world/chance.js'
import { lookUp, openMap, PARTITIONS, RECORD_BYTES, recordAt, type Stage } from './stage.js'
import { assertNothingReused } from './transcripts.js'

/** Kills the browser and all its processes with SIGKILL. */
export async function kill(browser: Browser): Promise<void> {
  const { pid, exitCode, signalCode } = browser.process()!
  if (exitCode !== null || signalCode !== null) return
  const gone = new Promise(resolve => browser.process()!.once('exit', resolve))
  process.kill(-pid!, 'SIGKILL')
  await gone
}

/** Kills a browser `times` times in lookups, mostly of one record, so that a query made anew instead of sent again is noticed. */
export async function killMidLookup(stage: Stage, seed: number, times: number): Promise<void> {
  const chance = new Chance(seed)
  const favourite = chance.below(stage.records)
  const profile = join(stage.folder, `lookups ${seed}`)
  let pending = 0
  let downloads = 0
  for (let life = 0; life <= times; life++) {
    const browser = await launchBrowser('chromium', { profile })
    try {
      const page = await stage.page(browser)
      const kept = await hasKept(page)
      if (!kept) downloads++
      const events = await openMap(page, stage.servers)
      assert.equal(events.length, kept ? 1 : 0)
      if (kept) assert.match(events[0]!, /^resumed hint (true|false)$/)
      if (events.includes('resumed hint true')) pending++
      const indices = [favourite, chance.below(stage.records), favourite]
      assert.deepEqual(await lookUp(page, indices), indices.map(recordAt))
      if (life === times) break
      await dieLookingUp(stage, browser, page, life % 3, favourite, chance)
    } finally {
      await kill(browser)
    }
  }
  assert(downloads - 1 <= times / 4, `the browser lost its storage ${downloads - 1} times`)
  const { queries, resent } = assertNothingReused(stage.proxies, { lost: downloads - 1 })
  assert(queries > 3 * times && pending > 0 && resent > 0)
  // The database was downloaded in the first life, and after that only if the browser had lost everything.
  assert.equal(stage.bytesOf('/v1/blobs/'), downloads * stage.records * RECORD_BYTES)
}

/** Whether the browser has kept the witness of an earlier life. If not, writes it now, durably. */
async function hasKept(page: Page): Promise<boolean> {
  return await page.evaluate(async () => {
    const done = (request: IDBRequest | IDBTransaction, event: 'success' | 'complete') =>
      new Promise<void>((resolve, reject) => {
        request.addEventListener(event, () => resolve())
        request.addEventListener('error', () => reject(request.error))
      })
    const opening = indexedDB.open('witness')
    let fresh = false
    opening.onupgradeneeded = () => {
      fresh = true
      opening.result.createObjectStore('of an earlier life')
    }
    await done(opening, 'success')
    const tx = opening.result.transaction('of an earlier life', 'readwrite', { durability: 'strict' })
    const written = tx.objectStore('of an earlier life').put(true, 'here')
    await Promise.all([done(written, 'success'), done(tx, 'complete')])
    opening.result.close()
    return !fresh
  })
}

/** `silenced`: the server, 0 or 1, whose answer is missing when the browser is killed; 2: killed at any time. */
async function dieLookingUp(
  stage: Stage,
  browser: Browser,
  page: Page,
  silenced: number,
  index: number,
  chance: Chance,
): Promise<void> {
  const wrong: string[] = []
  await page.exposeFunction('tell', (value: string) => {
    if (value !== recordAt(index)) wrong.push(value)
  })
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

/** Kills a browser `times` times (at most 5) during the offline phase, then lets it finish. */
export async function killMidDownload(stage: Stage, seed: number, times: number): Promise<void> {
  const chance = new Chance(seed)
  const profile = join(stage.folder, `downloads ${seed}`)
  for (const proxy of stage.proxies) proxy.seen.length = 0
  let beginnings = 0
  for (let life = 0; life <= times; life++) {
    const browser = await launchBrowser('chromium', { profile })
    try {
      const page = await stage.page(browser)
      // As on a slow line: each partition takes long enough for another save.
      await page.evaluate(() => {
        const now = performance.now.bind(performance)
        performance.now = () => 10_000 * now()
      })
      const kept = await hasKept(page)
      if (!kept) beginnings++
      const opening = openMap(page, stage.servers)
      if (life === times) {
        assert.deepEqual(await opening, kept ? ['resumed download false'] : [])
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
  assert(beginnings <= 2, `the browser lost its storage ${beginnings - 1} times`)
  // A kill costs at most one partition per server: the one being downloaded or saved.
  assert(stage.bytesOf('/v1/blobs/') < (beginnings + 0.1) * database + 2 * times * partition)
}

/** Resolves when so many blobs have been requested; serves no more of them. */
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
