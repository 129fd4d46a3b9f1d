// The ways a map may answer, in words: one line each, those that move less before the first answer first.

import type { OpenOptions } from '@keyhush/client'

export interface Mode {
  /** `open({ mode })` and `map.mode` */
  readonly name: Exclude<NonNullable<OpenOptions['mode']>, 'auto'>
  readonly title: string
  readonly means: string
}

export const MODES: readonly Mode[] = [
  {
    name: 'instant',
    title: 'Instant',
    means: 'Nothing is kept here: for each lookup both servers go through the whole database.',
  },
  {
    name: 'full',
    title: 'Full hint',
    means:
      'A secret digest of one full download (the hint) is kept here: for a lookup each server reads a few records.',
  },
  {
    name: 'single',
    title: 'One server',
    means:
      'Secret digests of one full download (hints) are kept here, and lookups use them up: one server alone is asked, and learns nothing, whoever runs it.',
  },
  {
    name: 'local',
    title: 'Keep it all',
    means: 'Every record is kept here: a lookup asks nobody.',
  },
]

/** undefined: there is none, as of a condemned map */
export const modeOf = (name: string | undefined) => MODES.find(mode => mode.name === name)
