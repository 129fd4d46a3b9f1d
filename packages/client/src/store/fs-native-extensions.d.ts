// The part of fs-native-extensions that is used here; the package has no types of its own.

declare module 'fs-native-extensions' {
  /**
   * Locks the whole file for this open file description: fcntl(F_OFD_SETLK) on Linux, flock() on macOS, LockFileEx() on
   * Windows. False: another has it.
   */
  export function tryLock(fd: number): boolean
}
