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
