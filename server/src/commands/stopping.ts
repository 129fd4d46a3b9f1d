// Signals and events that a command does not handle. After a handler of SIGSEGV and the like, the process runs into the same fault again,
// for ever; without one it ends.

export const ENDS_BY_ITSELF = ['beforeExit', 'SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const
