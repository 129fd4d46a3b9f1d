// Real `keyhush` servers, and other commands of `keyhush`, as child processes.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { keyhushCommand } from './paths.js'

export interface RunningServer {
  readonly url: string
  close(): Promise<void>
}

export const START_TIMEOUT_MS = 180_000 // a server first loads up to millions of records into its store
const STOP_TIMEOUT_MS = 3_000

/** They end with this process. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Runs a command to its end. */
export async function keyhush(...args: readonly string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [keyhushCommand, ...args])
}

/** Starts `keyhush serve`, or that of another command, on a free port and waits until it prints its address. */
export async function startServer(args: readonly string[], command = keyhushCommand): Promise<RunningServer> {
  const fixed = ['serve', '--host', '127.0.0.1', '--port', '0', '--drain-seconds', '0', '--log-level', 'warn']
  const child = spawn(process.execPath, [command, ...fixed, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  child.once('exit', () => running.delete(child))

  const close = async () => {
    if (hasEnded(child)) return
    const ended = once(child, 'exit')
    const impatience = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    child.kill('SIGTERM')
    await ended
    clearTimeout(impatience)
  }
  try {
    return { url: await printedAddress(child), close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The first address that the child prints. Reading goes on afterwards, so that the child never blocks. */
function printedAddress(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const printed: string[] = []
    const fail = (reason: string) => reject(new Error(`a server ${reason}:\n${printed.join('\n')}`))
    const timeout = setTimeout(() => fail(`printed no address within ${START_TIMEOUT_MS / 1000} s`), START_TIMEOUT_MS)
    let address: string | undefined
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface(stream).on('line', line => {
        if (address !== undefined) return
        printed.push(line)
        address = /http:\/\/[\w.:[\]-]+:\d+/.exec(line)?.[0]
        if (address === undefined) return
        clearTimeout(timeout)
        resolve(address)
      })
    }
    child.once('error', error => fail(`did not start (${error.message})`))
    child.once('exit', code => fail(`ended with code ${code}`))
  })
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null
