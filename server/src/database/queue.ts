// Work on one database, so many pieces at a time.

/** Runs `work` in the order in which it comes. */
export type Queue = <T>(work: () => Promise<T>) => Promise<T>

export function newQueue(atOnce = 1): Queue {
  const waiting: (() => void)[] = []
  let running = 0
  return async work => {
    await new Promise<void>(resolve => {
      if (running === atOnce) waiting.push(resolve)
      else resolve(void running++)
    })
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
