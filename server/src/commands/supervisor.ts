// What a supervisor is told (systemd's Type=notify): that this process is ready, and that it stops. Node has no datagram sockets of
// the kind that takes, and systemd brings a program for it.

import { execFile } from 'node:child_process'

/** Tells whoever started this process, if they want to know. What does not get there is said on stderr. */
export function tellSupervisor(state: 'READY=1' | 'STOPPING=1'): void {
  if (!process.env['NOTIFY_SOCKET']) return
  execFile('systemd-notify', [state], error => {
    if (error !== null) process.stderr.write(`keyhush: systemd could not be told ${state}: ${error.message.trim()}\n`)
  })
}
