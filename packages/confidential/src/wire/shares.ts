// How shares add up to the secret (Shamir): f(0) = Σ (weight of j / scale)·f(j), with the least whole numbers.

const gcd = (a: number, b: number): number => (b === 0 ? Math.abs(a) : gcd(b, a % b))

export interface Combination {
  /** D: the combination is D times the secret. 1 to 63. */
  readonly scale: number
  /** cⱼ, one a share, in their order; at most 448 in absolute value */
  readonly weights: readonly number[]
}

/** Of shares with these numbers, from 1 to 8, which differ. */
export function combinationOf(numbers: readonly number[]): Combination {
  const fractions = numbers.map(own => {
    const others = numbers.filter(other => other !== own)
    const [over, under] = [(product: number, other: number) => product * other, others.map(other => other - own)]
    const [numerator, denominator] = [others.reduce(over, 1), under.reduce(over, 1)]
    const common = gcd(numerator, denominator) * Math.sign(denominator)
    return { numerator: numerator / common, denominator: denominator / common }
  })
  const scale = fractions.reduce((least, { denominator }) => (least * denominator) / gcd(least, denominator), 1)
  return { scale, weights: fractions.map(({ numerator, denominator }) => (numerator * scale) / denominator) }
}
