// Work on one database, a piece at a time.

/** Runs `work` after all that came before it. */
export type Queue = <T>(work: () => Promise<T>) => Promise<T>

export function newQueue(): Queue {
  let last: Promise<unknown> = Promise.resolve()
  return work => {
    const done = last.then(work)
    last = done.catch(() => {})
    return done
  }
}
