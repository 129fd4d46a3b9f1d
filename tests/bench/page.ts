// The part of the bench that runs in the page. Puppeteer sends `measureInPage` over as text, so it uses nothing from
// outside itself but the page's own `pirouette`.

import type {} from '../support/web.js'

export interface Measured {
  readonly offlineMs: number
  readonly longestTaskMs: number
  /** of a map whose state is in memory, and of one whose state is durable, in turn */
  readonly lookupMs: readonly number[]
  readonly durableLookupMs: readonly number[]
  /** the offline phase of a map whose state is durable */
  readonly durableOfflineMs: number
  /** from `open()` of a stored map to its first vector, without the round trips for manifests and fence */
  readonly reopenMs: number
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
  const map = await pirouette.open({ servers, storage: 'memory' })
  const offlineMs = performance.now() - start

  port1.close()
  await turn()
  for (const { duration } of observer.takeRecords()) longTasks.push(duration)
  observer.disconnect()

  const gone = indexedDB.deleteDatabase('pirouette')
  await new Promise(resolve => {
    gone.onsuccess = resolve
  })
  const durableStart = performance.now()
  const durable = await pirouette.open({ servers, storage: 'required' })
  const durableOfflineMs = performance.now() - durableStart

  const samples: { index: number; value: number[] }[] = []
  const timed = async (map: typeof durable, times: number[], count: boolean) => {
    const index = Math.floor(Math.random() * map.size)
    const start = performance.now()
    const value = await map.at(index)
    if (count) times.push(performance.now() - start)
    samples.push({ index, value: Array.from(value ?? []) })
  }
  const lookupMs: number[] = []
  const durableLookupMs: number[] = []
  for (let i = 0; i < warmUpLookups + lookups; i++) {
    await timed(map, lookupMs, i >= warmUpLookups)
    await timed(durable, durableLookupMs, i >= warmUpLookups)
  }

  await durable.close()
  // Both manifests are asked for at once, the fence by itself.
  const roundTrips = { '/v1/manifests': { begun: 0, done: 0 }, '/v1/fence': { begun: 0, done: 0 } }
  let firstVector: number | undefined
  const watched = async (url: string, init: RequestInit) => {
    const { pathname } = new URL(url)
    const trip = firstVector === undefined && Reflect.get(roundTrips, pathname)
    if (pathname === '/v1/answer') firstVector ??= performance.now()
    if (trip) trip.begun ||= performance.now()
    const response = await fetch(url, init)
    if (trip) trip.done = performance.now()
    return response
  }
  const reopenStart = performance.now()
  const reopened = await pirouette.open({ servers, storage: 'required', fetch: watched })
  await timed(reopened, [], false)
  const waited = Object.values(roundTrips).reduce((sum, { begun, done }) => sum + done - begun, 0)
  const reopenMs = firstVector! - reopenStart - waited
  await reopened.close()

  const { hintBytes, permutationBytes, lastLookup, servers: traffic } = map.stats
  await map.close()
  return {
    offlineMs,
    longestTaskMs: longTasks.length > 0 ? Math.max(...longTasks) : longestSilence,
    lookupMs,
    durableLookupMs,
    durableOfflineMs,
    reopenMs,
    stateBytes: hintBytes + permutationBytes,
    lookupBytes: lastLookup!.bytesUp + lastLookup!.bytesDown,
    offlineBytes: traffic.reduce((sum, { offline }) => sum + offline.bytesDown + offline.bytesUp, 0),
    samples,
  }
}
