// One line on stderr that says how far a build or load is.

import type { Progress } from '../dataset/build.js'

const REDRAW_MILLISECONDS = 100

/** Runs `work` with a callback for its progress, which is shown if stderr is a terminal. */
export async function withProgress<T>(work: (onProgress: (progress: Progress) => void) => Promise<T>): Promise<T> {
  const line = process.stderr.isTTY ? drawProgress() : undefined
  try {
    return await work(progress => line?.draw(progress))
  } finally {
    line?.clear()
  }
}

/** Runs `work`, which says nothing of itself, and says what it is meanwhile. */
export async function saying<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  if (!process.stderr.isTTY) return await work()
  process.stderr.write(`\r\x1b[K${what} …`)
  try {
    return await work()
  } finally {
    process.stderr.write('\r\x1b[K')
  }
}

function drawProgress(): { draw: (progress: Progress) => void; clear: () => void } {
  let drawnAt = 0
  return {
    draw({ stage, done, total }) {
      const now = performance.now()
      if (now - drawnAt < REDRAW_MILLISECONDS) return
      drawnAt = now
      process.stderr.write(`\r\x1b[K${stage} ${Math.floor((100 * done) / total)} %`)
    },
    clear: () => process.stderr.write('\r\x1b[K'),
  }
}
