// The script of an app whose main thread the bench watches. It is sent over as text, so that it uses nothing from outside itself.

import type { OpenOptions, open } from '@keyhush/client'

/** A map that an app opens, and what it does with it. */
export interface Visit {
  readonly options: OpenOptions
  readonly key: string
  /** whether it waits for `auto` to have prepared a state behind the lookups */
  readonly prepares: boolean
  /** whether it follows a batch, which the page's `publish()` publishes */
  readonly follows: boolean
}

export interface Visited {
  readonly value: number[]
  /** milliseconds from when the script with the WebAssembly was there until the answer */
  readonly answerMs: number
}

/** Marks where each phase begins: what was done before belongs to none that has a name. */
export async function visit(openMap: typeof open, { options, key, prepares, follows }: Visit): Promise<Visited> {
  const rest = () => new Promise(resolve => setTimeout(resolve, 20))
  const begins = (phase: string) => void performance.mark(`phase: ${phase}`)
  let prepared = () => {}
  const preparing = new Promise<void>(resolve => {
    prepared = resolve
  })
  const map = await openMap({
    ...options,
    onEvent: ({ type }) => void (type === 'mode' && prepared()),
    onProgress: ({ loadedBytes, totalBytes }) => void (loadedBytes === totalBytes && begins('finish and save')),
  })
  begins('lookup')
  const value = await map.get(key)
  const answered = performance.now()
  await rest()
  if (prepares) {
    begins('prepare')
    await preparing
    await rest()
  }
  if (follows) {
    await (globalThis as unknown as { publish(): Promise<void> }).publish()
    begins('follow')
    await map.sync()
    await rest()
  }
  begins('another lookup')
  await map.get(key)
  await rest()
  begins('close')
  await map.close()
  await rest()
  const scripts = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
  const modules = scripts.filter(({ name }) => name.includes('inline'))
  const first = Math.min(...modules.map(({ responseEnd }) => responseEnd))
  return { value: Array.from(value ?? []), answerMs: answered - first }
}
