// The part of the bench that runs in the page. Puppeteer sends `measureInPage` over as text, so it uses nothing from
// outside itself but the page's own `pirouette`.

import type {} from '../support/web.js'

export interface Measured {
  readonly offlineMs: number
  readonly longestTaskMs: number
  readonly lookupMs: readonly number[]
  /** permutations and parities */
  readonly stateBytes: number
  /** bodies of one lookup, both ways, both servers */
  readonly lookupBytes: number
  readonly offlineBytes: number
  /** some values found, to be checked */
  readonly samples: readonly { readonly index: number; readonly value: readonly number[] }[]
}

export async function measureInPage(
  servers: readonly [string, string],
  warmUpLookups: number,
  lookups: number,
): Promise<Measured> {
  const longTasks: number[] = []
  const observer = new PerformanceObserver(list => {
    for (const { duration } of list.getEntries()) longTasks.push(duration)
  })
  observer.observe({ type: 'longtask' })
  const turn = () => new Promise(resolve => setTimeout(resolve))
  await turn()

  // A message to oneself at every turn of the event loop, for as long as the offline phase lasts.
  let longestSilence = 0
  let last = performance.now()
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = () => {
    const now = performance.now()
    longestSilence = Math.max(longestSilence, now - last)
    last = now
    port2.postMessage(undefined)
  }
  port2.postMessage(undefined)

  const start = performance.now()
  const map = await pirouette.open({ servers })
  const offlineMs = performance.now() - start

  port1.close()
  await turn()
  for (const { duration } of observer.takeRecords()) longTasks.push(duration)
  observer.disconnect()

  const lookupMs: number[] = []
  const samples: { index: number; value: number[] }[] = []
  for (let i = 0; i < warmUpLookups + lookups; i++) {
    const index = Math.floor(Math.random() * map.size)
    const start = performance.now()
    const value = await map.at(index)
    if (i >= warmUpLookups) lookupMs.push(performance.now() - start)
    samples.push({ index, value: Array.from(value ?? []) })
  }
  const { hintBytes, permutationBytes, lastLookup, servers: traffic } = map.stats
  await map.close()
  return {
    offlineMs,
    longestTaskMs: longTasks.length > 0 ? Math.max(...longTasks) : longestSilence,
    lookupMs,
    stateBytes: hintBytes + permutationBytes,
    lookupBytes: lastLookup!.bytesUp + lastLookup!.bytesDown,
    offlineBytes: traffic.reduce((sum, { offline }) => sum + offline.bytesDown + offline.bytesUp, 0),
    samples,
  }
}
