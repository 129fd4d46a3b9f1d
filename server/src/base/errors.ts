// What can be wrong with an operator's files. Both name the file; messages are written to be shown as they are.

/** A data file or a choice of layout that cannot become a dataset. Nothing has been written. */
export class BuildError extends Error {
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

/** A dataset directory that is not what its manifest says. Nothing of it is served. */
export class DatasetError extends Error {
  override readonly name = 'DatasetError'
  readonly file: string

  constructor(file: string, reason: string) {
    super(`${file}: ${reason}`)
    this.file = file
  }
}
