// For a server's worker threads: the core's kernels on the memory of the core's instance, which runs in another thread.
//
// A worker gets the compiled module, the memory and the end of its own stack (`Core.workerModule`, `Core.memory`,
// `Core.newWorkerStack`) in its `workerData`, and a pass's descriptor by message. Messages order memory: what the sender
// wrote before is seen, and the pass's memory and database must be left alone until the worker has answered.

/** What a worker thread is started with. Can be sent as it is. */
export interface KernelsOptions {
  readonly module: WebAssembly.Module
  readonly memory: WebAssembly.Memory
  /** `WorkerStackHandle.end`, of a stack that is nobody else's */
  readonly stackEnd: number
}

/** The kernels on one worker thread's stack. */
export interface Kernels {
  /** Goes all steps of an instant pass. Throws if the descriptor makes no sense: then the core is broken. */
  runInstantPass(descriptor: number): void
}

interface Exports {
  readonly __stack_pointer: WebAssembly.Global<'i32'>
  run(descriptor: number): number
}

function instantiated({ module, memory, stackEnd }: KernelsOptions): Exports {
  const exports = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as Exports
  exports.__stack_pointer.value = stackEnd
  return exports
}

/**
 * Starts the kernels in this thread.
 * @example
 * const kernels = startKernels(workerData)
 */
export function startKernels(options: KernelsOptions): Kernels {
  const { run } = instantiated(options)
  return {
    runInstantPass(descriptor) {
      if (run(descriptor) !== 1) throw new Error('expected the descriptor of an instant pass; the core wrote another')
    },
  }
}
