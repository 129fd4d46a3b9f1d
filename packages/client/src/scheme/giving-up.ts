// A preparation that is given up for another scheme's, and what is still to be found out about it.

/** Replies that were refused, in memory alone, until the database itself shows who has lied. Secret. */
export interface Inquiry {
  /** of the epoch the replies were of */
  readonly epoch: number
  /** a partition of that epoch, which has its content hash */
  take(partition: number, bytes: Uint8Array): void
  /** The names of the servers that have lied, all partitions having been taken. */
  liars(): readonly string[]
  /** Overwrites and frees it. */
  free(): void
}

/** This preparation cannot be: its scheme's fallback is to be prepared instead. Nothing of it is used again. */
export class GivenUpError extends Error {
  readonly inquiry: Inquiry | undefined

  constructor(cause: unknown, inquiry?: Inquiry) {
    super('a hint could not be made in this way', { cause })
    this.inquiry = inquiry
  }
}
