// Pearson's chi-square test of uniformity, with bounds of p-values that hold far into the tail: there an approximation of the
// distribution by a normal one (Wilson–Hilferty) is off by orders of magnitude.

/** P[X ≥ statistic] for X chi-square with `degrees` of freedom, or somewhat more: Chernoff's bound. */
export function chiSquareSurvival(statistic: number, degrees: number): number {
  const ratio = statistic / degrees
  return ratio <= 1 ? 1 : Math.exp((degrees / 2) * (Math.log(ratio) + 1 - ratio))
}

/** A bound of the p-value of counts that are uniform if nothing is wrong. */
export function uniformityPValue(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length
  const statistic = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  return chiSquareSurvival(statistic, counts.length - 1)
}
