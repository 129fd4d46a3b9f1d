// How commands stop. Signals and events that a command does not handle: after a handler of SIGSEGV and the like, the process runs into the
// same fault again, for ever; without one it ends.

import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { SHUTTING_DOWN } from '../http/frame.js'
import { describeError } from '../http/plugins/errors.js'

export const ENDS_BY_ITSELF = ['beforeExit', 'SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const

/** How long what is under way may take when a server stops; a slow download is then cut off, to be resumed. */
const FINISH_MILLISECONDS = 10_000

/**
 * Stops on SIGTERM after `drainSeconds`, in which /readyz says no; on SIGINT at once; both with exit code 0. A fault of ours: 1.
 * Call it before you load a server, so that no signal is lost.
 */
export function closeWhenAsked(
  running: () => FastifyInstance | undefined,
  afterwards: () => Promise<void>,
  drainSeconds: number,
): void {
  const delay = 1000 * drainSeconds + 2 * FINISH_MILLISECONDS
  closeWithGrace({ delay, logger: false, skip: [...ENDS_BY_ITSELF] }, async ({ err, signal }) => {
    const app = running()
    if (app === undefined) {
      if (err !== undefined) process.stderr.write(`keyhush: ${err.stack ?? err}\n`)
      return
    }
    if (err !== undefined) app.log.error(describeError(err), 'an uncaught error; the server stops')
    tellSupervisor('STOPPING=1')
    if (signal === 'SIGTERM' && drainSeconds > 0) {
      app.readiness.leave(SHUTTING_DOWN)
      app.log.info(`${signal}: answering for ${drainSeconds} s more, /readyz returns 503`)
      await sleep(1000 * drainSeconds)
    }
    if (err === undefined) app.log.info(`${signal}: closing`)
    setTimeout(() => app.server.closeAllConnections(), FINISH_MILLISECONDS)
    await app.close()
    await afterwards()
  })
}

/** Tells systemd (Type=notify). Node has no datagram sockets of the kind that takes, and systemd brings a program for it. */
export function tellSupervisor(state: 'READY=1' | 'STOPPING=1'): void {
  if (!process.env['NOTIFY_SOCKET']) return
  execFile('systemd-notify', [state], error => {
    if (error !== null) process.stderr.write(`keyhush: cannot notify systemd of ${state}: ${error.message.trim()}\n`)
  })
}
