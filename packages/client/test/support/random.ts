// Predictable randomness, so that every test run is the same run. The seed is part of each test's name or message.

/** Words of 32 bits (xorshift32). Good enough to be different everywhere; not for anything else. */
function words(start: number): () => number {
  let state = start >>> 0 || 1
  return () => {
    state ^= state << 13
    state >>>= 0
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state
  }
}

/** A stream of bytes from a seed. */
export function seededRandom(seed: number): (bytes: number) => Uint8Array {
  const word = words(seed * 0x9e3779b1 + 0x7f4a7c15)
  return bytes => Uint8Array.from({ length: bytes }, () => (word() >>> 11) & 0xff)
}

/** Numbers below a bound that follow from a seed, uniform enough for large bounds. */
export function drawing(seed: number): (below: number) => number {
  const word = words(seed * 2654435761)
  return below => Math.floor((word() / 2 ** 32) * below)
}
