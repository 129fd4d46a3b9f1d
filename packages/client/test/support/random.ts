// Predictable randomness, so that every test run is the same run. The seed is part of each test's name or message.

/** A stream of bytes from a seed (xorshift32). Good enough to be different everywhere; not for anything else. */
export function seededRandom(seed: number): (bytes: number) => Uint8Array {
  let state = (seed * 0x9e3779b1 + 0x7f4a7c15) >>> 0 || 1
  return bytes =>
    Uint8Array.from({ length: bytes }, () => {
      state ^= state << 13
      state >>>= 0
      state ^= state >>> 17
      state ^= state << 5
      state >>>= 0
      return (state >>> 11) & 0xff
    })
}

/** Numbers below a bound that follow from a seed, uniform enough for large bounds. */
export function drawing(seed: number): (below: number) => number {
  let state = (seed * 2654435761) >>> 0 || 1
  return below => {
    state ^= state << 13
    state >>>= 0
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return Math.floor((state / 2 ** 32) * below)
  }
}
