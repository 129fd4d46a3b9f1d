// Assertions for tests that run in Node and inside a page, where there is no test runner.

/** Values compared and shown as text: bytes in hex, `undefined` told from absent fields. */
export function show(value: unknown): string {
  return JSON.stringify(value, (_, field: unknown) => {
    if (field instanceof Uint8Array)
      return `bytes:${Array.from(field, byte => byte.toString(16).padStart(2, '0')).join('')}`
    return field === undefined ? 'undefined' : field
  })
}

export function expectEqual(found: unknown, expected: unknown, what = 'value'): void {
  const [a, b] = [show(found), show(expected)]
  if (a !== b) throw new Error(`${what}: expected ${clip(b)}, found ${clip(a)}`)
}

/** Compares errors by name, which is the same across realms and bundles. */
export async function expectRejection(work: Promise<unknown>, name: string, what = 'call'): Promise<void> {
  const found = await outcome(work)
  if (found !== name) throw new Error(`${what}: expected ${name}, found ${found}`)
}

/** `fine`, or the name of the error. */
export async function outcome(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'fine',
    (error: Error) => error.name,
  )
}

function clip(text: string): string {
  return text.length > 600 ? `${text.slice(0, 600)}… (${text.length} characters)` : text
}
