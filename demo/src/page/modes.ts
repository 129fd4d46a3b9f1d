// One row for each mode of a map: its words, in the order in which modes are shown, least traffic before the first answer first.

import type { OpenOptions } from '@keyhush/client'

/** `open({ mode })` and `map.mode` */
export type ModeName = Exclude<NonNullable<OpenOptions['mode']>, 'auto'>

const words = {
  instant: {
    title: 'Instant',
    means: 'Nothing is kept here: for each lookup both servers go through the whole database.',
    advice: 'look up instantly',
  },
  full: {
    title: 'Full hint',
    means:
      'A secret digest of one full download (the hint) is kept here: for a lookup each server reads a few records.',
    advice: 'make a hint of the whole database',
  },
  single: {
    title: 'One server',
    means:
      'Secret digests of one full download (hints) are kept here, and lookups use them up: one server alone is asked, and learns nothing, whoever runs it.',
    advice: 'ask one server alone',
  },
  local: {
    title: 'Keep it all',
    means: 'Every record is kept here: a lookup asks nobody.',
    advice: 'keep it all',
  },
} satisfies Record<ModeName, { title: string; means: string; advice: string }>

export interface Mode {
  readonly name: ModeName
  readonly title: string
  readonly means: string
  /** what the calculator says to do */
  readonly advice: string
}

export const MODES: readonly Mode[] = Object.entries(words).map(([name, row]) => ({ name: name as ModeName, ...row }))

/** undefined: a condemned map has no mode */
export const modeOf = (name: string | undefined) => MODES.find(mode => mode.name === name)
