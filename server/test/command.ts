// The `keyhush` command in this process, which is all of it but the half second that a process of its own takes to begin.
// What only a process shows is in process.all.test.ts; servers do not end, and are processes everywhere.

import { expect } from 'vitest'
import { run } from '../dist/cli.js'

export interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

let before: Promise<unknown> = Promise.resolve()

/** Runs `keyhush …` to its end, and after those that were run before: they print to one place. */
export function keyhush(...args: string[]): Promise<Outcome> {
  const outcome = before.then(() => outcomeOf(args))
  before = outcome
  return outcome
}

/** What `keyhush …` prints. Throws if it fails. */
export async function runKeyhush(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await keyhush(...args)
  if (code !== 0) throw new Error(stderr)
  return stdout
}

/** It has failed, and has said so among other words. */
export async function expectRefused(outcome: Promise<Outcome>, words: string, exit = 1): Promise<void> {
  const { code, stderr } = await outcome
  expect([code, stderr]).toEqual([exit, expect.stringContaining(words)])
}

async function outcomeOf(args: readonly string[]): Promise<Outcome> {
  const printed = { stdout: '', stderr: '' }
  const restore = (['stdout', 'stderr'] as const).map(name => {
    const stream = process[name]
    const write = stream.write
    stream.write = text => {
      // On a busy machine any step may be slow.
      if (!`${text}`.startsWith('keyhush: still at the step ')) printed[name] += text
      return true
    }
    return () => {
      stream.write = write
    }
  })
  try {
    return { code: await run(args), ...printed }
  } finally {
    for (const each of restore) each()
  }
}
