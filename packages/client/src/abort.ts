// Giving up on work: the promise at once, the work itself only where that is safe (see lookup.ts, P5).

/** Settles as `work` does, or rejects with the signal's reason as soon as that aborts. The work itself goes on. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise<T>((resolve, reject) => {
    const give = () => reject(signal.reason)
    if (signal.aborted) give()
    signal.addEventListener('abort', give, { once: true })
    const settled = () => signal.removeEventListener('abort', give)
    work.then(
      value => {
        settled()
        resolve(value)
      },
      error => {
        settled()
        reject(error)
      },
    )
  })
}

/**
 * Runs `work` with a signal that aborts as soon as one of `outer` does, and in any case when `work` has settled: what
 * it left running is called off.
 */
export async function scoped<T>(
  outer: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const aborts = outer.map(signal => () => controller.abort(signal?.reason))
  outer.forEach((signal, i) => {
    if (signal?.aborted) controller.abort(signal.reason)
    signal?.addEventListener('abort', aborts[i]!, { once: true })
  })
  try {
    controller.signal.throwIfAborted()
    return await work(controller.signal)
  } finally {
    outer.forEach((signal, i) => {
      signal?.removeEventListener('abort', aborts[i]!)
    })
    controller.abort()
  }
}

/**
 * Runs tasks side by side. The first to fail calls the others off; the error is thrown when all have settled, so that
 * what they share can be let go.
 */
export async function together(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const failing = new AbortController()
  await scoped([signal, failing.signal], async signal => {
    const run = async (task: (signal: AbortSignal) => Promise<void>) => {
      try {
        await task(signal)
      } catch (error) {
        failing.abort(error)
        throw error
      }
    }
    const outcomes = await Promise.allSettled(tasks.map(run))
    signal.throwIfAborted()
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  })
}
