// What does not stop a process in good order.

import type closeWithGrace from 'close-with-grace'

/** The system ends a process at a fault. A handler would return to what failed, which fails again, and keeps a processor for ever. */
export const NO_CLOSING: closeWithGrace.AllEvents[] = [
  'beforeExit',
  'SIGILL',
  'SIGTRAP',
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGSEGV',
]
