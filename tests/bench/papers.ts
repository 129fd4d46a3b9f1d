// What the papers measured, to stand beside our figures. "TAPIR" is its own paper (Falzon, Hetz, O'Toole), Table 1: records
// of 32 bytes, M = Q = √N, two Intel Xeon Gold 6258R at 2.7 GHz. Bandwidth there is in KiB, both servers together.
// Times of "0.00" s are left out: they say only that something took less than 5 ms.

import type { Row } from './plot.js'

/** A column of Table 1. */
export type Figure = 'offlineBytes' | 'serverSeconds' | 'clientSeconds' | 'lookupBytes' | 'lookupSeconds'

type Line = readonly [
  exponent: number,
  series: string,
  offlineKib: number | undefined,
  serverSeconds: number | undefined,
  clientSeconds: number | undefined,
  lookupKib: number,
  lookupSeconds: number | undefined,
]

const TABLE_1: readonly Line[] = [
  [18, 'APIR-DPF', undefined, undefined, undefined, 1.43, 0.04],
  [18, 'APIR-Matrix-MT', 0.1, 0.58, undefined, 49.68, 0.01],
  [18, 'TAPIR-MT', 18_982.05, 0.33, 0.08, 354, 0.01],
  [18, 'TAPIR-PP', 19_025.02, 13_162.05, 0.1, 34.66, 0.99],
  [18, 'SinglePass', 18.52, undefined, 0.01, 34.5, undefined],
  [20, 'APIR-DPF', undefined, undefined, undefined, 1.56, 0.17],
  [20, 'APIR-Matrix-MT', 0.1, 2.74, undefined, 104.36, 0.04],
  [20, 'TAPIR-MT', 75_852.05, 1.45, 0.39, 776.98, 0.02],
  [20, 'TAPIR-PP', 75_938, 105_304.9, 0.46, 69.65, 2.63],
  [20, 'SinglePass', 37.02, undefined, 0.05, 69.5, undefined],
  [22, 'APIR-DPF', undefined, undefined, undefined, 1.69, 0.72],
  [22, 'APIR-Matrix-MT', 0.1, 11.54, undefined, 218.26, 0.16],
  [22, 'TAPIR-MT', 303_256.05, 5.51, 1.86, 1690.98, 0.05],
  [22, 'TAPIR-PP', 303_427.92, 844_441.96, 1.63, 139.66, 8.79],
  [22, 'SinglePass', 74.03, undefined, 0.24, 139.51, undefined],
  [24, 'APIR-DPF', undefined, undefined, undefined, 1.83, 2.97],
  [24, 'APIR-Matrix-MT', 0.1, 47.73, undefined, 454.87, 0.73],
  [24, 'TAPIR-MT', 1_212_720.05, 22.14, 7.65, 3662.97, 0.12],
  [24, 'SinglePass', 148.03, undefined, 0.96, 279.51, 0.01],
]

/** One figure of the schemes named, as rows of a plot: bytes or seconds against N. */
export function published(figure: Figure, schemes: readonly string[]): Row[] {
  return TABLE_1.flatMap(([exponent, series, offlineKib, serverSeconds, clientSeconds, lookupKib, lookupSeconds]) => {
    const figures: Record<Figure, number | undefined> = {
      offlineBytes: offlineKib === undefined ? undefined : offlineKib * 1024,
      serverSeconds,
      clientSeconds,
      lookupBytes: lookupKib * 1024,
      lookupSeconds,
    }
    const median = figures[figure]
    return median === undefined || !schemes.includes(series) ? [] : [{ series, x: 2 ** exponent, median }]
  })
}

/** Fig. 9, of which the text (§6.4) has numbers: batches of 500 at N = 2^22, the largest that it plots; the largest of all of a client. */
export const FIG_9: readonly Row[] = [{ series: 'TAPIR-MT', x: 2 ** 22, median: 0.005e-3 }]

/** SinglePass (Lazzaretti, Papamanthou), Table 2: 3 000 000 records of 32 bytes, Q = 10, batches of 500 updates; one thread of EC2. */
export const TABLE_2 = {
  SinglePass: {
    preprocessingSeconds: 0.122,
    lookupSeconds: 0.02e-3,
    lookupBytes: 680,
    clientBytes: 23.3e6,
    updateSeconds: 0.19e-3,
  },
  Checklist: {
    preprocessingSeconds: 13.22,
    lookupSeconds: 0.95e-3,
    lookupBytes: 1480,
    clientBytes: 23.6e6,
    updateSeconds: 3.78e-3,
  },
} as const
