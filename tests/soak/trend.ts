// Whether a figure grows that goes up and down all the time.

export interface Sample {
  readonly seconds: number
  readonly value: number
}

/** The least of each `spanSeconds`: what a garbage collector leaves behind. */
export function floors(samples: readonly Sample[], spanSeconds: number): Sample[] {
  const least = new Map<number, Sample>()
  for (const sample of samples) {
    const span = Math.floor(sample.seconds / spanSeconds)
    const known = least.get(span)
    if (known === undefined || sample.value < known.value) least.set(span, sample)
  }
  return [...least.values()]
}

/** The median slope between any two samples, for an hour (Theil, Sen): a few that are far off do not move it. */
export function growthPerHour(samples: readonly Sample[]): number {
  const slopes = samples.flatMap((a, i) =>
    samples.slice(i + 1).map(b => (3600 * (b.value - a.value)) / (b.seconds - a.seconds)),
  )
  slopes.sort((a, b) => a - b)
  return slopes[slopes.length >> 1] ?? 0
}
