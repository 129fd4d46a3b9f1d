// What ends a command: a signal that asks for it, or an error. Not what is left of the event loop, and no fault of the processor: its
// handler would return to the fault, and the process would turn in that circle for ever.

export const ENDS_BY_ITSELF = ['beforeExit', 'SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const
