// A long piece of work in a command: a line on stderr says how far it is, and a signal ends it cleanly.

import { constants } from 'node:os'
import type { Progress } from '../dataset/build.js'

const REDRAW_MILLISECONDS = 100

/**
 * Runs `work` with a callback for its progress, which is shown if stderr is a terminal. SIGINT and SIGTERM end the
 * process meanwhile, through `process.exit` so that what was begun is removed.
 */
export async function withProgress<T>(work: (onProgress: (progress: Progress) => void) => Promise<T>): Promise<T> {
  const exit = (signal: NodeJS.Signals) => process.exit(128 + constants.signals[signal])
  process.on('SIGINT', exit).on('SIGTERM', exit)
  const line = process.stderr.isTTY ? drawProgress() : undefined
  try {
    return await work(progress => line?.draw(progress))
  } finally {
    line?.clear()
    process.off('SIGINT', exit).off('SIGTERM', exit)
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
