// What may go wrong with what an operator gave a command. Messages are written to be shown as they are.

/** The command says it in a sentence; for any other error the stack is what helps. */
export class OperatorError extends Error {}

/** A data file or a choice of layout that cannot become a dataset. Nothing has been written. */
export class BuildError extends OperatorError {
  override readonly name = 'BuildError'
  /** the data file as the caller named it; undefined: the fault is in the options */
  readonly file: string | undefined
  /** from 1; undefined where no line is to blame */
  readonly line: number | undefined
  readonly reason: string

  constructor(reason: string, file?: string, line?: number) {
    super(
      [file, line, ` ${reason}`]
        .filter(part => part !== undefined)
        .join(':')
        .trimStart(),
    )
    this.file = file
    this.line = line
    this.reason = reason
  }
}

/** A package that a server does without, unless it is asked for what that brings. */
export class MissingPackageError extends OperatorError {
  override readonly name = 'MissingPackageError'
}

/** A dataset directory that is not what its manifest says. Nothing of it is served. */
export class DatasetError extends OperatorError {
  override readonly name = 'DatasetError'
  readonly file: string

  constructor(file: string, reason: string) {
    super(`${file}: ${reason}`)
    this.file = file
  }
}

/** A thread has failed at what it was asked. Another may do it. */
export class ThreadError extends Error {
  override readonly name = 'ThreadError'
}

/** Whether the core has trapped: WebAssembly's own error, whose class Node's types do not know. Nothing in its memory is of use. */
export function isTrap(error: unknown): error is Error {
  return error instanceof Error && error.name === 'RuntimeError'
}

/** Runs `work` on what is stored at `location`. Whatever is wrong with that is a DatasetError; other OperatorErrors and the core's traps pass. */
export async function readingFrom<T>(location: string, work: () => T): Promise<Awaited<T>> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof OperatorError || isTrap(error)) throw error
    throw new DatasetError(location, (error as Error).message)
  }
}

/** Another process has the store open: it may be about to end. */
export class InUseError extends DatasetError {}

/**
 * What a caller of `publish` can do: 1 a wrong call; 3 run it again; 4 look, because the servers or a clock are not as they
 * should be; 5 the batch was published before; 75 run it again: it is published, and too few witnesses have signed.
 */
export type PublishExit = 1 | 3 | 4 | 5 | 75

interface Refused {
  readonly code?: string | undefined
  readonly epoch?: number | undefined
}

/** Why nothing, or not everything, was published. The message is written to be shown as it is. */
export class PublishError extends OperatorError {
  override readonly name = 'PublishError'
  /** exit code of the command */
  readonly exit: PublishExit
  /** of a server's error reply; undefined: it has none */
  readonly code: string | undefined
  readonly epoch: number | undefined

  constructor(message: string, exit: PublishExit = 1, { code, epoch }: Refused = {}) {
    super(message)
    this.exit = exit
    this.code = code
    this.epoch = epoch
  }
}

/** The publisher's key vouches for what cannot be. The evidence is in a folder. */
export class ContradictionError extends OperatorError {
  override readonly name = 'ContradictionError'
  readonly evidence: string

  constructor(found: string, evidence: string) {
    super(
      `A CONTRADICTION: ${found}. The evidence is in ${evidence}: show it to the operators and to those who use the map`,
    )
    this.evidence = evidence
  }
}
