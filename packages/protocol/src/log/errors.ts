// The one error of this folder. It imports nothing of the rest of the package, so that apps load it apart.

/** A note, proof or policy that breaks its format, or does not hold. The message says what was expected and what came. */
export class LogError extends Error {
  override readonly name = 'LogError'
}

/** Throws a LogError: `field: expected …, got …`. */
export function refuse(field: string, expected: string | number, got: string | number): never {
  throw new LogError(`${field}: expected ${expected}, got ${got}`)
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i])
}
