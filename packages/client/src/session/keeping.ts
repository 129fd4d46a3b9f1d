// Sessions of maps that keep a state, or may later. Loaded when a map needs it, so that an app with instant lookups alone
// ships without it.

import type { Manifest } from '@keyhush/protocol'
import type { Environment } from '../platform/environment.js'
import { loadPart } from '../platform/parts.js'
import { startCore } from '../platform/starting.js'
import { downloadBytes } from '../scheme/download.js'
import { firstScheme, schemesFor } from '../scheme/known.js'
import type { StatelessScheme } from '../scheme/scheme.js'
import { chooseScheme, type Pays, paysAfter, SCHEMES } from '../scheme/table.js'
import { ChoosingSession } from './choosing.js'
import { Consent } from './consent.js'
import { buildFor, type Keeping } from './opening.js'
import { StatefulSession } from './stateful.js'

/** With all schemes and the planner's rules; tests pass others. */
export function keeping(schemes = SCHEMES, pays = paysAfter, choose = chooseScheme): Keeping {
  return async given => {
    const { mode, core, apart, environment, download, network, experimental } = given
    const usable = schemesFor(schemes, apart, experimental)
    const parts = { ...given, schemes: usable }
    const known = mode === 'auto' ? firstScheme(usable) : undefined
    const first =
      known && (apart === 1 ? await (await loadPart(given.loadOneServer!)).startOneServer(environment) : known)
    if (first === undefined) {
      const basis = { lookups: 0, apart }
      const consent = new Consent(download)
      return await StatefulSession.withStore({
        ...parts,
        environment: core.kind === 'script' ? inMemory(environment) : environment,
        mayDownload: (mode, manifest, signal) =>
          consent.ask({ mode, bytes: downloadBytes(manifest), reason: 'needed' }, signal),
        choose: (manifest: Manifest) => choose(core, manifest, basis),
      })
    }
    const loadHints = () => startCore(environment, buildFor(mode, apart, usable))
    const paysHere = apart === 1 ? paysBeside(first, pays) : pays
    return await ChoosingSession.withStore(parts, first, { pays: paysHere, choose, loadHints, download, network })
  }
}

/** The core in JavaScript has no stored forms. */
function inMemory(environment: Environment): Environment {
  return { ...environment, openStore: identity => environment.openStore(identity, 'memory') }
}

/** With one server: what is best kept whole pays at once, as `pays` says; anything else when lookups have moved as many bytes. */
function paysBeside(first: StatelessScheme, pays: Pays): Pays {
  return (core, manifest, lookups, apart) => {
    if (pays(core, manifest, 0, apart)) return true
    const { lookupBytesUp, lookupBytesDown } = first.costs(core, manifest, { proofs: 'auto' })
    return lookups * (lookupBytesUp + lookupBytesDown) >= downloadBytes(manifest)
  }
}
