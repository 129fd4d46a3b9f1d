// The `keyhush` command as a process, and all that it prints, until the test ends.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

/** Its file, for Node. */
export const command = fileURLToPath(new URL('../bin/keyhush.js', import.meta.url))

/** Runs a program. `finished`: once it has ended, and has printed all. */
export function started(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const printed = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', text => {
      printed[name] += text
    })
  }
  const finished = once(child, 'close').then(([code]) => ({ code: code as number | null, ...printed }))
  return { child, printed, finished }
}

/** One that serves, from when it says where. */
export async function serving(program: string, args: readonly string[], env?: NodeJS.ProcessEnv) {
  const server = started(program, args, env)
  const ended = server.finished.then(({ stderr }) => Promise.reject(new Error(stderr)))
  ended.catch(() => {}) // it does, later
  await Promise.race([once(server.child.stdout, 'data'), ended])
  return { ...server, url: /^listening on (http:\S+)\n$/.exec(server.printed.stdout)![1]! }
}
