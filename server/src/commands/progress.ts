// What commands print: on stderr one line with the progress of a build or load, on stdout a summary.

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

export type Printed = Readonly<Record<string, string | number>>

/** Prints one `name: value` a line, for people and scripts. */
export function printSummary(values: Printed): void {
  for (const [name, value] of Object.entries(values)) process.stdout.write(`${name}: ${value}\n`)
}

/** Runs `work`, and shows what that is meanwhile. */
export async function saying<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  if (!process.stderr.isTTY) return await work()
  process.stderr.write(`\r\x1b[K${what} …`)
  try {
    return await work()
  } finally {
    process.stderr.write('\r\x1b[K')
  }
}

/** Draws now and then, and whenever a stage begins: it may be long before it says more. */
export function drawProgress(
  write: (text: string) => unknown = text => process.stderr.write(text),
  now: () => number = () => performance.now(),
): { draw: (progress: Progress) => void; clear: () => void } {
  let drawn: { readonly stage: Progress['stage']; readonly at: number } | undefined
  return {
    draw({ stage, done, total }) {
      const at = now()
      if (drawn?.stage === stage && at - drawn.at < REDRAW_MILLISECONDS) return
      drawn = { stage, at }
      write(`\r\x1b[K${stage} ${Math.floor((100 * done) / total)} %`)
    },
    clear: () => write('\r\x1b[K'),
  }
}
