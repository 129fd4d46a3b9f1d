// For a server's worker threads: runs instant passes on the memory of the core's instance, which runs in another thread.
//
// A worker gets in its `workerData` the compiled module, the memory, and the end of its own stack (`Core.workerModule`,
// `Core.memory`, `Core.newWorkerStack`). It gets a pass's descriptor by message. It sees everything that the sender wrote
// before the message. Until the worker has answered, nobody may touch the pass's memory or the database.

/** The options of a worker thread. They can be sent as they are. */
export interface PassOptions {
  readonly module: WebAssembly.Module
  readonly memory: WebAssembly.Memory
  /** `WorkerStackHandle.end` of a stack that no other thread uses */
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
 * Starts the module in this thread. The returned function does all steps of an instant pass. It throws if the descriptor is
 * malformed: then the core is broken.
 * @example
 * const runPass = passRunner(workerData)
 */
export function passRunner(options: PassOptions): (descriptor: number) => void {
  const { run } = instantiated(options)
  return descriptor => {
    if (run(descriptor) !== 1) throw new Error('expected the descriptor of an instant pass; the core wrote another')
  }
}
