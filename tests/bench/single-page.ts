// The part of the bench with one server that runs in a page. It is sent over as text, so that it uses nothing from outside
// itself but the globals `keyhush` and `publish`.

import type {} from '../support/web.js'
import type { Measured } from './page.js'

/** A durable map, from nothing stored: its offline phase, lookups, an update that `publish()` makes, and opened again. */
export async function measureSingle(server: string, warmUpLookups: number, lookups: number) {
  // Memory of WebAssembly only grows: what there is in the end is the most there was.
  const memories = new Set<WebAssembly.Memory>()
  const note = (exports: WebAssembly.Exports) => {
    for (const each of Object.values(exports)) if (each instanceof WebAssembly.Memory) memories.add(each)
  }
  const { Instance, instantiate } = WebAssembly
  WebAssembly.Instance = class extends Instance {
    constructor(...parameters: ConstructorParameters<typeof Instance>) {
      super(...parameters)
      note(this.exports)
    }
  }
  WebAssembly.instantiate = (async (...parameters: Parameters<typeof instantiate>) => {
    const result = (await instantiate(...parameters)) as unknown as
      | WebAssembly.Instance
      | WebAssembly.WebAssemblyInstantiatedSource
    note('instance' in result ? result.instance.exports : result.exports)
    return result
  }) as typeof instantiate
  const turn = (ms?: number) => new Promise(resolve => setTimeout(resolve, ms))
  /** The longest task, as Chromium reports those from 50 ms on; 0: there was none. */
  const watch = () => {
    const longTasks: number[] = []
    const note = (entries: PerformanceEntryList) => {
      for (const { duration } of entries) longTasks.push(duration)
    }
    const observer = new PerformanceObserver(list => note(list.getEntries()))
    observer.observe({ type: 'longtask' })
    return async () => {
      await turn(200) // they are reported late
      note(observer.takeRecords())
      observer.disconnect()
      return Math.max(0, ...longTasks)
    }
  }
  const watched = async <T>(work: () => Promise<T>) => {
    const ended = watch()
    const start = performance.now()
    const result = await work()
    const ms = performance.now() - start
    return { result, ms, taskMs: await ended() }
  }
  const gone = indexedDB.deleteDatabase('keyhush')
  await new Promise(resolve => {
    gone.onsuccess = resolve
  })
  /** What the latest lookup has sent. */
  let sent: [url: string, body: BodyInit][] = []
  const noting = (url: string, init: RequestInit) => {
    if (init.method === 'POST') sent.push([url, init.body!])
    return fetch(url, init)
  }
  const options = {
    servers: [server],
    integrity: 'server',
    mode: 'single',
    storage: 'required',
    fetch: noting,
    push: false,
  } as const
  const offline = await watched(() => keyhush.open(options))
  const map = offline.result
  await turn(50)
  const lookUp = async (map: Awaited<ReturnType<typeof keyhush.open>>, into: Measured['samples'][number][]) => {
    const index = Math.floor(Math.random() * map.size)
    sent = []
    const start = performance.now()
    const value = await map.at(index)
    const ms = performance.now() - start
    into.push({ index, value: Array.from(value ?? []) })
    await turn(4)
    return ms
  }
  /** The same once more, without the client: the fence has heard it already, and need not write. */
  const ask = async () => {
    const common = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'error' } as const
    const start = performance.now()
    for (const [url, body] of sent) {
      const response = await fetch(url, { ...common, method: 'POST', body })
      if (response.status !== 200) throw new Error(`expected status 200, got ${response.status}`)
      await response.arrayBuffer()
    }
    const ms = performance.now() - start
    await turn(4)
    return ms
  }
  const [samples, samplesAfter]: [Measured['samples'][number][], Measured['samples'][number][]] = [[], []]
  const [lookupMs, bareMs]: [number[], number[]] = [[], []]
  for (let i = 0; i < warmUpLookups + lookups; i++) {
    const ms = await lookUp(map, samples)
    const bare = await ask()
    if (i < warmUpLookups) continue
    lookupMs.push(ms)
    bareMs.push(bare)
  }
  const { lastLookup } = map.stats
  await (globalThis as unknown as { publish(): Promise<void> }).publish()
  const followed = await watched(() => map.sync())
  for (let i = 0; i < 5; i++) await lookUp(map, samplesAfter)
  await map.close()
  const reopened = await watched(() => keyhush.open(options))
  await lookUp(reopened.result, samplesAfter)
  await reopened.result.close()
  if (memories.size === 0) throw new Error('no WebAssembly memory was seen')
  return {
    wasmBytes: [...memories].reduce((bytes, { buffer }) => bytes + buffer.byteLength, 0),
    offlineMs: offline.ms,
    longestTaskMs: offline.taskMs,
    lookupMs,
    bareMs,
    lookupBytes: lastLookup!.bytesUp + lastLookup!.bytesDown,
    followMs: followed.ms,
    followTaskMs: followed.taskMs,
    reopenMs: reopened.ms,
    reopenTaskMs: reopened.taskMs,
    samples,
    samplesAfter,
  }
}
