// Sessions of maps that keep a state, or may later. Loaded when a map needs it, so that an app with instant lookups alone
// ships without it.

import type { Manifest } from '@keyhush/protocol'
import { startCore } from '../platform/starting.js'
import { downloadBytes } from '../scheme/download.js'
import { firstScheme, schemesFor } from '../scheme/known.js'
import { chooseScheme, paysAfter, SCHEMES } from '../scheme/table.js'
import { ChoosingSession } from './choosing.js'
import { Consent } from './consent.js'
import { buildFor, type Keeping } from './opening.js'
import { StatefulSession } from './stateful.js'

/** With all schemes and the planner's rules; tests pass others. */
export function keeping(schemes = SCHEMES, pays = paysAfter, choose = chooseScheme): Keeping {
  return async given => {
    const { mode, core, apart, environment, download, network } = given
    const usable = schemesFor(schemes, apart)
    const parts = { ...given, schemes: usable }
    const first = mode === 'auto' ? firstScheme(usable) : undefined
    if (first === undefined) {
      const basis = { lookups: 0, apart }
      const consent = new Consent(download)
      return await StatefulSession.withStore({
        ...parts,
        mayDownload: (mode, manifest, signal) =>
          consent.ask({ mode, bytes: downloadBytes(manifest), reason: 'needed' }, signal),
        choose: (manifest: Manifest) => choose(core, manifest, basis),
      })
    }
    const loadHints = () => startCore(environment, buildFor(mode, apart, usable))
    return await ChoosingSession.withStore(parts, first, { pays, choose, loadHints, download, network })
  }
}
