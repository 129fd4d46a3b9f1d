// For a server's worker threads: instant passes on the memory of the core's instance, which runs in another thread.
//
// A worker gets the compiled module, the memory and the end of its own stack (`Core.workerModule`, `Core.memory`,
// `Core.newWorkerStack`) in its `workerData`, and a pass's descriptor by message. Messages order memory: what the sender
// wrote before is seen, and the pass's memory and database must be left alone until the worker has answered.

/** What a worker thread is started with. Can be sent as it is. */
export interface PassOptions {
  readonly module: WebAssembly.Module
  readonly memory: WebAssembly.Memory
  /** `WorkerStackHandle.end`, of a stack that is nobody else's */
  readonly stackEnd: number
}

interface Exports {
  readonly __stack_pointer: WebAssembly.Global<'i32'>
  run(descriptor: number): number
}

function instantiated({ module, memory, stackEnd }: PassOptions): Exports {
  const exports = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as Exports
  exports.__stack_pointer.value = stackEnd
  return exports
}

/**
 * Starts the core in this thread. What it returns goes all steps of an instant pass, and throws if the descriptor makes no sense:
 * then the core is broken.
 * @example
 * const runPass = passRunner(workerData)
 */
export function passRunner(options: PassOptions): (descriptor: number) => void {
  const { run } = instantiated(options)
  return descriptor => {
    if (run(descriptor) !== 1) throw new Error('expected the descriptor of an instant pass; the core wrote another')
  }
}
