// Pearson's chi-square test of uniformity, with p-values that hold far into the tail: there an approximation of the
// distribution by a normal one (Wilson–Hilferty) is off by orders of magnitude.

/** P[X ≥ statistic] for X chi-square with `degrees` of freedom. */
export function chiSquareSurvival(statistic: number, degrees: number): number {
  return upperGamma(degrees / 2, statistic / 2)
}

/** The p-value of counts that are uniform if nothing is wrong. */
export function uniformityPValue(counts: readonly number[]): number {
  const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length
  const statistic = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  return chiSquareSurvival(statistic, counts.length - 1)
}

/** The regularised upper incomplete gamma function Q(a, x). */
function upperGamma(a: number, x: number): number {
  if (x <= 0) return 1
  const scale = Math.exp(a * Math.log(x) - x - logGamma(a)) // x^a·e^−x / Γ(a)
  return x < a + 1 ? 1 - scale * lowerSeries(a, x) : scale * upperFraction(a, x)
}

/** Σ x^n / (a·(a+1)·…·(a+n)): converges fast for x < a + 1. */
function lowerSeries(a: number, x: number): number {
  let term = 1 / a
  let sum = term
  for (let n = 1; term > sum * Number.EPSILON; n++) {
    term *= x / (a + n)
    sum += term
  }
  return sum
}

/** 1/(x+1−a− 1·(1−a)/(x+3−a− 2·(2−a)/(x+5−a− …))) by Lentz's method: converges fast for x ≥ a + 1. */
function upperFraction(a: number, x: number): number {
  let b = x + 1 - a
  let c = Number.POSITIVE_INFINITY
  let d = 1 / b
  let fraction = d
  for (let n = 1, change = 0; Math.abs(change - 1) > Number.EPSILON; n++) {
    const numerator = n * (a - n)
    b += 2
    d = 1 / (b + numerator * d)
    c = b + numerator / c
    change = c * d
    fraction *= change
  }
  return fraction
}

/** ln Γ(a) for a > 0: Stirling's series where it is good to double precision, and the recurrence below that. */
function logGamma(a: number): number {
  if (a < 20) return logGamma(a + 1) - Math.log(a)
  const correction = 1 / (12 * a) - 1 / (360 * a ** 3) + 1 / (1260 * a ** 5) - 1 / (1680 * a ** 7)
  return (a - 0.5) * Math.log(a) - a + 0.5 * Math.log(2 * Math.PI) + correction
}
