// The parts of the bench that run in a page. They are sent over as text, so that they use nothing from outside
// themselves but the global `keyhush`.

import type { OpenOptions } from '@keyhush/client'
import type {} from '../support/web.js'

/** A map to be measured. */
export interface Subject {
  readonly servers: [string, string]
  readonly proofs: 'tags' | 'merkle'
  readonly storage: 'memory' | 'required'
  /** whether the event loop is watched during its offline phase; costs a little */
  readonly watched?: boolean
  /** whether it is opened again in the end, from its durable state */
  readonly reopened?: boolean
  /** whether each lookup is followed by its requests once more, bare; with no fence, which would refuse them */
  readonly bare?: boolean
}

export interface Measured {
  readonly offlineMs: number
  /** if watched */
  readonly longestTaskMs: number
  readonly lookupMs: readonly number[]
  /** of them, until the first request leaves */
  readonly leaveMs: readonly number[]
  /** if bare: the same requests at once without the SDK, each pair right after its lookup */
  readonly bareMs: readonly number[]
  /** from `open()` of a stored map to its first vector, without the round trip in which servers say what they have */
  readonly reopenMs: number | undefined
  /** parities, permutations, tags */
  readonly stateBytes: number
  /** bodies of one lookup, both ways, both servers, without the fence */
  readonly lookupBytes: number
  readonly offlineBytes: number
  /** all values found, to be checked */
  readonly samples: readonly { readonly index: number; readonly value: readonly number[] }[]
}

/** Opens the maps one after the other, then looks random records up in each in turn, with a pause between lookups. */
export async function measureMaps(
  subjects: readonly Subject[],
  warmUpLookups: number,
  lookups: number,
): Promise<Measured[]> {
  const turn = (ms?: number) => new Promise(resolve => setTimeout(resolve, ms))

  // Watching: long tasks, and a message to oneself at every turn of the event loop.
  const watch = async () => {
    const longTasks: number[] = []
    const observer = new PerformanceObserver(list => {
      for (const { duration } of list.getEntries()) longTasks.push(duration)
    })
    if (PerformanceObserver.supportedEntryTypes.includes('longtask')) observer.observe({ type: 'longtask' })
    await turn()
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
    return async () => {
      port1.close()
      await turn()
      for (const { duration } of observer.takeRecords()) longTasks.push(duration)
      observer.disconnect()
      return longTasks.length > 0 ? Math.max(...longTasks) : longestSilence
    }
  }

  if (globalThis.indexedDB !== undefined) {
    const gone = indexedDB.deleteDatabase('keyhush')
    await new Promise(resolve => {
      gone.onsuccess = resolve
    })
  }
  interface Open {
    readonly map: Awaited<ReturnType<typeof keyhush.open>>
    readonly offlineMs: number
    readonly longestTaskMs: number
    readonly lookupMs: number[]
    readonly leaveMs: number[]
    readonly bareMs: number[]
    readonly leaving: { at?: number | undefined; requests: { url: string; body: BodyInit }[] }
    readonly samples: Measured['samples'][number][]
  }
  const maps: Open[] = []
  for (const { servers, proofs, storage, watched } of subjects) {
    const ended = watched ? await watch() : undefined
    const start = performance.now()
    const leaving: Open['leaving'] = { requests: [] }
    const noting = (url: string, init: RequestInit) => {
      if (init.method === 'POST') {
        leaving.at ??= performance.now()
        leaving.requests.push({ url, body: init.body! })
      }
      return fetch(url, init)
    }
    const map = await keyhush.open({ servers, mode: 'full', proofs, storage, fetch: noting })
    const offlineMs = performance.now() - start
    const longestTaskMs = (await ended?.()) ?? 0
    await turn(50) // what is stored afterwards does not weigh on the next
    maps.push({ map, offlineMs, longestTaskMs, lookupMs: [], leaveMs: [], bareMs: [], leaving, samples: [] })
  }

  const post = async ({ url, body }: Open['leaving']['requests'][number]) => {
    const common = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'error' } as const
    const response = await fetch(url, { ...common, method: 'POST', body })
    if (response.status !== 200) throw new Error(`expected status 200, got ${response.status}`)
    await response.arrayBuffer()
  }
  const lookUp = async (
    { map, lookupMs, leaveMs, bareMs, leaving, samples }: Open,
    bare: boolean | undefined,
    counts: boolean,
  ) => {
    const index = Math.floor(Math.random() * map.size)
    leaving.at = undefined
    leaving.requests = []
    const start = performance.now()
    const value = await map.at(index)
    const end = performance.now()
    if (counts) lookupMs.push(end - start)
    if (counts) leaveMs.push(leaving.at! - start)
    samples.push({ index, value: Array.from(value ?? []) })
    await turn(4)
    if (!bare) return
    const again = performance.now()
    await Promise.all(leaving.requests.map(post))
    if (counts) bareMs.push(performance.now() - again)
    await turn(4)
  }
  for (let round = 0; round < warmUpLookups + lookups; round++) {
    for (let i = 0; i < maps.length; i++) {
      const next = (i + round) % maps.length
      await lookUp(maps[next]!, subjects[next]!.bare, round >= warmUpLookups)
    }
  }

  const results: Measured[] = []
  for (const [i, { map, samples, leaving: _, ...times }] of maps.entries()) {
    const { servers, proofs, storage, reopened } = subjects[i]!
    const { held, lastLookup, servers: traffic } = map.stats
    await map.close()
    let reopenMs: number | undefined
    if (reopened) {
      let greetingBegun = Number.POSITIVE_INFINITY
      let greetingDone = 0
      let firstVector: number | undefined
      const timing = async (url: string, init: RequestInit) => {
        const greets = url.endsWith('/v1/info') && firstVector === undefined
        if (init.method === 'POST') firstVector ??= performance.now()
        else if (greets) greetingBegun = Math.min(greetingBegun, performance.now())
        const response = await fetch(url, init)
        if (greets) greetingDone = performance.now()
        return response
      }
      const start = performance.now()
      const again = await keyhush.open({ servers, mode: 'full', proofs, storage, fetch: timing })
      const index = Math.floor(Math.random() * again.size)
      samples.push({ index, value: Array.from((await again.at(index)) ?? []) })
      reopenMs = firstVector! - start - (greetingDone - greetingBegun)
      await again.close()
    }
    results.push({
      ...times,
      reopenMs,
      stateBytes: Object.values(held).reduce((sum, bytes) => sum + bytes, 0),
      lookupBytes: lastLookup!.bytesUp + lastLookup!.bytesDown,
      offlineBytes: traffic.reduce((sum, { offline }) => sum + offline.bytesDown + offline.bytesUp, 0),
      samples,
    })
  }
  return results
}

/** A map that is opened with nothing stored, keeps nothing, and is asked once. */
export async function measureVisit(
  servers: string[],
  mode: string,
  wanted: string | number,
  more: Partial<OpenOptions> = {},
): Promise<{
  readonly ms: number
  readonly bytes: number
  readonly value: number[]
  readonly mode: string | undefined
}> {
  const start = performance.now()
  const map = await keyhush.open({ servers, mode: mode as 'instant', storage: 'memory', push: false, ...more })
  const value = typeof wanted === 'string' ? await map.get(wanted) : await map.at(wanted)
  const ms = performance.now() - start
  const traffic = map.stats.servers.flatMap(({ offline, lookups, fence }) => [offline, lookups, fence])
  const answeredBy = map.mode
  await map.close()
  const bytes = traffic.reduce((sum, { bytesUp, bytesDown }) => sum + bytesUp + bytesDown, 0)
  return { ms, bytes, value: Array.from(value ?? []), mode: answeredBy }
}

/** Lookups by key, the first of which opens the map: milliseconds each. */
export async function measureFirst(servers: string[], keys: readonly string[]): Promise<number[]> {
  const milliseconds: number[] = []
  let start = performance.now()
  const map = await keyhush.open({ servers, mode: 'instant', storage: 'memory', push: false })
  for (const key of keys) {
    await map.get(key)
    milliseconds.push(performance.now() - start)
    start = performance.now()
  }
  await map.close()
  return milliseconds
}

/**
 * What a browser takes to flush a row of a lookup's length to its disk, without the SDK, and then to send the requests of a
 * lookup at once, if any are given: milliseconds each.
 */
export async function measureFlushes(
  count: number,
  lookups: readonly (readonly { readonly url: string; readonly body: readonly number[] }[])[] = [[]],
): Promise<number[]> {
  const name = 'flushes'
  const finished = (request: IDBOpenDBRequest) =>
    new Promise<IDBDatabase>(resolve => {
      request.onsuccess = () => resolve(request.result)
    })
  await finished(indexedDB.deleteDatabase(name))
  const opening = indexedDB.open(name)
  opening.onupgradeneeded = () => opening.result.createObjectStore('rows')
  const database = await finished(opening)
  const post = async ({ url, body }: { url: string; body: BodyInit }) => {
    const common = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'error' } as const
    const response = await fetch(url, { ...common, method: 'POST', body })
    if (response.status !== 200) throw new Error(`expected status 200, got ${response.status}`)
    await response.arrayBuffer()
  }
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const row = crypto.getRandomValues(new Uint8Array(2048))
    const requests = lookups[i % lookups.length]!.map(({ url, body }) => ({ url, body: Uint8Array.from(body) }))
    const start = performance.now()
    const flushed = new Promise<void>(resolve => {
      const transaction = database.transaction('rows', 'readwrite', { durability: 'strict' })
      transaction.oncomplete = () => resolve()
      const rows = transaction.objectStore('rows')
      rows.get(0).onsuccess = () => transaction.commit()
      rows.put(row, 0)
    })
    await flushed
    await Promise.all(requests.map(post))
    times.push(performance.now() - start)
    await new Promise(resolve => setTimeout(resolve, 4))
  }
  database.close()
  await finished(indexedDB.deleteDatabase(name))
  return times
}

/** What is there without privacy. */
export interface Plain {
  /** a GET of a record from a server that sees which */
  readonly recordMs: readonly number[]
  readonly samples: Measured['samples']
  /** of all blobs, one after the other */
  readonly everythingMs: number
  readonly everythingBytes: number
}

/** `url`: an index is appended. */
export async function measurePlain(
  url: string,
  records: number,
  lookups: number,
  blobs: readonly string[],
): Promise<Plain> {
  const get = async (url: string) => {
    const common = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'error' } as const
    const response = await fetch(url, common)
    if (response.status !== 200) throw new Error(`expected status 200, got ${response.status}`)
    return new Uint8Array(await response.arrayBuffer())
  }
  const recordMs: number[] = []
  const samples: { index: number; value: number[] }[] = []
  for (let i = 0; i < lookups; i++) {
    const index = Math.floor(Math.random() * records)
    const start = performance.now()
    const value = await get(`${url}${index}`)
    recordMs.push(performance.now() - start)
    samples.push({ index, value: Array.from(value) })
    await new Promise(resolve => setTimeout(resolve, 4))
  }
  const start = performance.now()
  let everythingBytes = 0
  for (const url of blobs) everythingBytes += (await get(url)).length
  return { recordMs, samples, everythingMs: performance.now() - start, everythingBytes }
}

/** What people take instead of private lookups: a range of keys, a filter of all keys, or the whole list. */
export type Instead = 'range' | 'filter' | 'list'

/** Looks `key` up by one of these at `url`. `value`: a filter has none. `bytes`: of the body as it came, compressed. */
export async function measureInstead(
  url: string,
  way: Instead,
  key: string,
): Promise<{ readonly ms: number; readonly bytes: number; readonly listed: boolean; readonly value: number[] }> {
  const digest = async (name: string) =>
    new DataView(await crypto.subtle.digest(name, new TextEncoder().encode(key) as BufferSource))
  const start = performance.now()
  const sha1 = await digest('SHA-1')
  const path = way === 'range' ? `${url}range/${sha1.getUint32(0) >>> 22}` : url + way
  const response = await fetch(path, { credentials: 'omit', cache: 'no-store' })
  if (response.status !== 200) throw new Error(`expected status 200, got ${response.status}`)
  let [listed, value] = [false, [] as number[]]
  if (way === 'filter') {
    const bits = new Uint8Array(await response.arrayBuffer())
    const sha256 = await digest('SHA-256')
    listed = [0, 1, 2, 3, 4, 5, 6].every(n => {
      const bit = Math.floor((sha256.getUint32(4 * n) / 2 ** 32) * 8 * bits.length)
      return (bits[bit >> 3]! >> (bit & 7)) & 1
    })
  } else {
    const hex = Array.from(new Uint8Array(sha1.buffer), byte => byte.toString(16).padStart(2, '0')).join('')
    const wanted = way === 'range' ? `${hex}:` : `${key},`
    const text = `\n${await response.text()}\n`
    const at = text.indexOf(`\n${wanted}`)
    listed = at >= 0
    const from = at + 1 + wanted.length
    if (listed) value = Array.from(atob(text.slice(from, text.indexOf('\n', from))), char => char.charCodeAt(0))
  }
  const ms = performance.now() - start
  const { encodedBodySize: bytes } = performance.getEntriesByName(path).at(-1) as PerformanceResourceTiming
  return { ms, bytes, listed, value }
}

/** Opens a map that stays open, and writes down when it has moved on, in milliseconds since 1970, by epoch. */
export async function followUpdates(servers: [string, string], publisherKey?: string): Promise<void> {
  const turned = new Map<number, number>()
  const onEvent = (event: { readonly type: string; readonly epoch?: number }) => {
    if (event.type === 'updated') turned.set(event.epoch!, performance.timeOrigin + performance.now())
  }
  const signed = publisherKey && { publisherKey }
  const map = await keyhush.open({ servers, mode: 'full', storage: 'required', onEvent, ...signed })
  Object.assign(globalThis, { following: { map, turned } })
}

/** When it came to this epoch, and the value it has there. */
export async function turnedTo(epoch: number, index: number): Promise<{ at: number; value: number[] }> {
  const { map, turned } = (
    globalThis as unknown as {
      following: { map: Awaited<ReturnType<typeof keyhush.open>>; turned: ReadonlyMap<number, number> }
    }
  ).following
  while (!turned.has(epoch)) await new Promise(resolve => setTimeout(resolve, 10))
  return { at: turned.get(epoch)!, value: Array.from((await map.at(index)) ?? []) }
}

/** A visit of a map with a filter: until it answers for one of these keys, and how long the page was held up. `absent`: a key that sent nothing. */
export async function measureFilter(
  servers: readonly string[],
  keys: readonly string[],
): Promise<{ readonly ms: number; readonly longestTaskMs: number; readonly absent: string | undefined }> {
  const tasks: number[] = []
  const take = (entries: PerformanceEntryList) => void tasks.push(...entries.map(({ duration }) => duration))
  const observer = new PerformanceObserver(list => take(list.getEntries()))
  observer.observe({ type: 'longtask' })
  const start = performance.now()
  const filter = { cover: 0, meanwhile: 'wait' } as const
  const how = { mode: 'instant', storage: 'required', push: false, development: true } as const
  const map = await keyhush.open({ servers, filter, ...how })
  let ms: number | undefined
  let absent: string | undefined
  for (const key of keys) {
    await map.get(key)
    ms ??= performance.now() - start
    if (map.stats.lastLookup!.bytesUp === 0) absent ??= key
  }
  await new Promise(resolve => setTimeout(resolve, 100))
  take(observer.takeRecords())
  await map.close()
  return { ms: ms!, longestTaskMs: Math.max(0, ...tasks), absent }
}
