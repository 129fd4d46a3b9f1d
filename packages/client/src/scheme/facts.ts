// What is known of schemes that keep a state before their code is loaded: an app's options are checked against it.

import type { StatefulFacts } from './scheme.js'

/** The second keeps the hint's fence. */
const HINT_PARTIES = ['retrieve', 'refresh']

/** The mode that keeps a filter, and looks nothing up. No scheme answers in it. */
export const FILTER = 'filter'

export const TAPIR: StatefulFacts = { name: 'full', kind: 'stateful', parties: HINT_PARTIES, provable: true }
export const LOCAL: StatefulFacts = { name: 'local', kind: 'stateful', parties: [] }
export const SINGLE: StatefulFacts = { name: 'single', kind: 'stateful', parties: ['server'] }
