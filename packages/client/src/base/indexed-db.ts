// Whether this platform has IndexedDB at all.

/** Reading the name throws where a page is refused IndexedDB, as in some frames: there it exists, and cannot be opened. */
export function hasIndexedDb(): boolean {
  try {
    return globalThis.indexedDB !== undefined
  } catch {
    return true
  }
}
