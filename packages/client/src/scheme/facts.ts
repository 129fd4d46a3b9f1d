// What is known of schemes that keep a state before their code is loaded: by this an app's options are judged.

import type { StatefulFacts } from './scheme.js'

/** Who is asked through a hint; the refresh server keeps its fence. */
const HINT_PARTIES = ['retrieve', 'refresh'] as const

export const TAPIR = {
  name: 'full',
  kind: 'stateful',
  parties: HINT_PARTIES,
  provable: true,
} as const satisfies StatefulFacts
export const LOCAL = { name: 'local', kind: 'stateful', parties: [] } as const satisfies StatefulFacts
export const SINGLE = {
  name: 'single',
  kind: 'stateful',
  parties: ['server'],
} as const satisfies StatefulFacts
