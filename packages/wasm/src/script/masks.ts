// Choices without branches. A mask is −1 (all bits) for yes and 0 for no. So neither the steps of the program nor the memory it reads
// depend on what was asked. Not promised: that an engine computes a step in the same time for all numbers, or keeps no copies of them.

/** Whether a = b. */
export function isEqual(a: number, b: number): number {
  const difference = a ^ b
  return ((difference | -difference) >>> 31) - 1
}

/** Whether a < b. Both are below 2^31. */
export function isBelow(a: number, b: number): number {
  return (a - b) >> 31
}

/** `yes` if the mask is −1, else `no`. */
export function select(mask: number, yes: number, no: number): number {
  return no ^ (mask & (yes ^ no))
}

/** Adds `more` to `sum`, bit by bit. */
export function add(sum: Uint8Array, more: Uint8Array): void {
  for (let i = 0; i < sum.length; i++) sum[i]! ^= more[i]!
}

/** Copies row number `row` of `rows` into `into`, which has the length of a row. Reads all rows. */
export function selectRow(into: Uint8Array, rows: Uint8Array, row: number): void {
  into.fill(0)
  for (let at = 0, number = 0; at < rows.length; number++) {
    const mask = isEqual(number, row)
    for (let i = 0; i < into.length; i++, at++) into[i]! |= mask & rows[at]!
  }
}
