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
  /** The same for steps of a server's reply for a light hint. */
  makeLightReply(descriptor: number): void
}

/** A piece of memory for one worker thread (`Core.newWorkerRoom`), which is nobody else's. An entry has to fit: 66 KiB. */
export interface Room {
  readonly start: number
  readonly bytes: number
}

/** Answers queries of suites 1 and 2, on a worker thread's stack and in its room. */
export interface Entries {
  /**
   * The entries for offsets (u16, little-endian), Q a query, at an epoch as `DatabaseHandle.entriesDescriptor` says it; nobody
   * may change the database meanwhile. undefined: an offset is not below M.
   */
  answer(epoch: Uint32Array, offsets: Uint8Array, proved: boolean): Uint8Array<ArrayBuffer> | undefined
}

interface Exports {
  readonly __stack_pointer: WebAssembly.Global<'i32'>
  run(descriptor: number): number
  make(descriptor: number): number
  answer(descriptor: number): number
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
  const { run, make } = instantiated(options)
  return {
    runInstantPass(descriptor) {
      if (run(descriptor) !== 1) throw new Error('expected the descriptor of an instant pass; the core wrote another')
    },
    makeLightReply(descriptor) {
      if (make(descriptor) !== 1) throw new Error('expected the descriptor of a light reply; the core wrote another')
    },
  }
}

/** Words that the core writes of an epoch: partitions, records a partition, bytes a record and depth are the first four. */
const EPOCH_WORDS = 14
/** Whether entries are proved, the first one's number, and address and length of offsets and entries. */
const ASKED_WORDS = 6
const DESCRIPTOR_BYTES = 4 * (EPOCH_WORDS + ASKED_WORDS)
const OFFSET_BYTES = 2
const NODE_BYTES = 32

/**
 * Starts answering in this thread, in a room that is its own.
 * @example
 * const entries = startEntries(workerData.kernels, workerData.room)
 */
export function startEntries(options: KernelsOptions, room: Room): Entries {
  const { answer } = instantiated(options)
  const bytes = new Uint8Array(options.memory.buffer, room.start, room.bytes)
  const words = new Uint32Array(options.memory.buffer, room.start, EPOCH_WORDS + ASKED_WORDS)
  return {
    answer(epoch, offsets, proved) {
      const each = epoch[2]! + (proved ? NODE_BYTES * epoch[3]! : 0)
      const count = offsets.length / OFFSET_BYTES
      const most = Math.floor((room.bytes - DESCRIPTOR_BYTES) / (OFFSET_BYTES + each))
      if (most === 0) throw new Error(`expected room for an entry of ${each} bytes`)
      const entries = new Uint8Array(count * each)
      for (let first = 0; first < count; first += most) {
        const part = Math.min(most, count - first)
        const begin = DESCRIPTOR_BYTES + OFFSET_BYTES * part
        bytes.set(offsets.subarray(OFFSET_BYTES * first, OFFSET_BYTES * (first + part)), DESCRIPTOR_BYTES)
        words.set(epoch)
        words.set(
          [Number(proved), first, room.start + DESCRIPTOR_BYTES, OFFSET_BYTES * part, room.start + begin, each * part],
          EPOCH_WORDS,
        )
        const said = answer(room.start)
        if (said === 2) return undefined
        if (said !== 1) throw new Error('expected the descriptor of an epoch; the core wrote another')
        entries.set(bytes.subarray(begin, begin + each * part), each * first)
      }
      return entries
    },
  }
}
