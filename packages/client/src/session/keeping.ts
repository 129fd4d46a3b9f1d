// Sessions of maps that keep a state, or may come to: this, and all that it takes, is loaded by who needs it, so that an app
// that looks up instantly and keeps nothing ships without.

import type { Manifest } from '@keyhush/protocol'
import { startCore } from '../platform/starting.js'
import { firstScheme, schemesFor } from '../scheme/known.js'
import { chooseScheme, paysAfter, SCHEMES } from '../scheme/table.js'
import { ChoosingSession } from './choosing.js'
import type { Keeping } from './opening.js'
import { StatefulSession } from './stateful.js'

/** With all schemes there are, and the planner's rules; or, in tests, with others. */
export function keeping(schemes = SCHEMES, pays = paysAfter, choose = chooseScheme): Keeping {
  return async given => {
    const { mode, core, apart, environment } = given
    const usable = schemesFor(schemes, apart)
    const parts = { ...given, schemes: usable }
    const first = mode === 'auto' ? firstScheme(usable) : undefined
    if (first === undefined) {
      const basis = { lookups: 0, apart }
      return await StatefulSession.withStore({
        ...parts,
        choose: (manifest: Manifest) => choose(core, manifest, basis),
      })
    }
    const loadHints = () => startCore(environment, 'client')
    return await ChoosingSession.withStore(parts, first, { pays, choose, loadHints })
  }
}
