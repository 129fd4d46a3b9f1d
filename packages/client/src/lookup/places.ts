// Lookups that give where a key is, beside what it is.

import type { Core } from '@keyhush/wasm/client'
import { isSameSecret } from '../base/bytes.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import type { Place } from '../scheme/scheme.js'
import type { Agreed } from '../servers/manifests.js'
import { type Question, valuesOf } from './question.js'

/** What a lookup says of keys at an epoch, in their order. */
export interface Placed {
  readonly core: Core
  readonly base: Agreed
  readonly places: readonly Place[]
}

/** Where keys are. Up to `padTo` queries are made, the rest at random indices. */
export function placesOf(keys: readonly Uint8Array[], padTo: number, random: Environment['random']): Question<Placed> {
  const values = valuesOf(keys, padTo, random)
  let asked: Uint32Array = new Uint32Array()
  return {
    padTo,
    blocks: at => values.blocks(at),
    indices(at) {
      asked = values.indices(at)
      return asked
    },
    read({ core, base, manifest }, records, changes) {
      const prints = inCore(core, () => keys.map(key => core.fingerprint(key)))
      const absent: Place = { index: undefined, record: new Uint8Array(manifest.recordBytes) }
      const changed = changes?.places(prints)
      const places = prints.map((print, i) => {
        const place = changed?.[i]
        if (place?.record !== undefined) return place
        const { fingerprint, bytes } = records[i]!
        return isSameSecret(fingerprint!, print) ? { index: asked[i], record: bytes.slice() } : absent
      })
      const { bytes } = base // what a hint can follow is not at stake here
      return { core, base: { manifest, bytes }, places }
    },
  }
}
