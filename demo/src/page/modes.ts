// The modes of a map in words, in the order in which they are shown: least traffic before the first answer first.

import type { OpenOptions } from '@keyhush/client'

/** `open({ mode })` and `map.mode` */
export type ModeName = Exclude<NonNullable<OpenOptions['mode']>, 'auto'>

export interface Mode {
  readonly name: ModeName
  readonly title: string
  readonly means: string
  /** what the calculator says to do */
  readonly advice: string
}

export const MODES: readonly Mode[] = [
  {
    name: 'instant',
    title: 'Instant',
    means: 'Nothing is downloaded. Both servers read the whole list for each lookup.',
    advice: 'instant lookups',
  },
  {
    name: 'full',
    title: 'Full hint',
    means: 'The list is downloaded once, and a secret digest of it is kept. Servers then read a few records.',
    advice: 'download once, keep a hint',
  },
  {
    name: 'single',
    title: 'One server, a hint',
    means: 'The same with one server alone. Lookups use the digest up.',
    advice: 'ask one server alone',
  },
  {
    name: 'local',
    title: 'Keep it all',
    means: 'The list is downloaded and kept. Lookups ask nobody.',
    advice: 'download the list',
  },
]
