// Reads a reply's body within limits of length and time.

/** A reply that takes longer is given up. */
const LONGEST_MILLISECONDS = 30_000

/** Throws if the body has more than `most` bytes, or does not end. */
export async function readBounded({ body }: Response, most: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array()
  const reader = body.getReader()
  let isLate = false
  const late = setTimeout(() => {
    isLate = true
    reader.cancel().catch(() => {})
  }, LONGEST_MILLISECONDS)
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      chunks.push(value)
      length += value.length
      if (length > most) throw new Error(`expected at most ${most} bytes`)
    }
    if (isLate) throw new Error('the reply did not end')
  } finally {
    clearTimeout(late)
    reader.cancel().catch(() => {})
  }
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
  }
  return whole
}
