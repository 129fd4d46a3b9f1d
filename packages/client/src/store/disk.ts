// What the file store needs of a file system: one folder, and the promises POSIX makes about it. Behind an interface,
// so that tests can cut the power between any two of these calls and lose whatever was not synced.

export interface Disk {
  /** a file's bytes; undefined if there is none of that name */
  read(name: string): Promise<Uint8Array | undefined>
  /** all names in the folder, but for what lock() may need */
  list(): Promise<readonly string[]>
  /** an empty file, for its owner alone; fails with code EEXIST if there is one already */
  create(name: string): Promise<OpenFile>
  /** an existing file, to be written at its end */
  append(name: string): Promise<OpenFile>
  /** atomic; what had the new name is gone */
  rename(from: string, to: string): Promise<void>
  /** no change if there is none of that name */
  remove(name: string): Promise<void>
  /** makes names durable: which files there are, under which names */
  sync(): Promise<void>
  /**
   * Takes the folder for this caller alone. Resolves to what gives it back, or to undefined if it is taken, in this process
   * or another. The end of a process, however it ends, gives it back.
   */
  lock(): Promise<(() => Promise<void>) | undefined>
}

export interface OpenFile {
  write(bytes: Uint8Array): Promise<void>
  /** makes the file's bytes durable, not its name */
  sync(): Promise<void>
  close(): Promise<void>
}
