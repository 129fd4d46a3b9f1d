// Uniform draws from the platform's random bytes.

type Random = (bytes: number) => Uint8Array

/** Uniform below `bound`, at most 2³². Draws that would favour small numbers are repeated. */
export function randomBelow(bound: number, random: Random): number {
  const fair = 2 ** 32 - (2 ** 32 % bound)
  for (;;) {
    const bytes = random(4)
    const draw = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true)
    if (draw < fair) return draw % bound
  }
}

/** A copy in uniform order. */
export function shuffled<T>(items: readonly T[], random: Random): T[] {
  const order = [...items]
  for (let i = order.length - 1; i > 0; i--) {
    const j = randomBelow(i + 1, random)
    ;[order[i], order[j]] = [order[j]!, order[i]!]
  }
  return order
}
