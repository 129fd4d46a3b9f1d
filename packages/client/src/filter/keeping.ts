// The stored filter: a state that is never whole, under an identity of its own. Tabs share it, and it never goes back. Its bytes are public, and
// are hashed again when they are read.

import { equalBytes } from '@keyhush/protocol'
import { ATTEMPTS } from '../base/constants.js'
import type { Environment } from '../platform/environment.js'
import { type Agreed, readManifest } from '../servers/manifests.js'
import type { Signing } from '../servers/signatures.js'
import { isMoved, readable } from '../store/storage.js'
import { type StateHead, type StateStore, StateUnreadableError } from '../store/store.js'
import { HeldFilter, hasHash, type Working } from './held.js'

const SCHEME = 'filter'

export class StoredFilter {
  readonly #store: StateStore
  readonly #environment: Working & Pick<Environment, 'random'>
  /** what is stored cannot be used, whatever its epoch */
  #isDamaged = false

  constructor(store: StateStore, environment: Working & Pick<Environment, 'random'>) {
    this.#store = store
    this.#environment = environment
  }

  /** Undefined: there is none that can be used. `isDamaged` is called for one that nobody has signed, or whose bytes are others. */
  async read(
    signing: Signing | undefined,
    hashOf: (bytes: Uint8Array) => Uint8Array,
    isDamaged: () => void,
  ): Promise<HeldFilter | undefined> {
    try {
      const head = await this.#store.read()
      const at = agreedIn(head)
      if (head === undefined) return undefined
      if (at !== undefined && (signing === undefined || (await signing.hasSigned(at, hashOf)))) {
        const { partial, directory } = await this.#store.readPartial(head.record.hintId)
        const { slotMarksHash, directoryHash } = at.manifest
        const isWhole =
          slotMarksHash !== undefined &&
          (await hasHash(this.#environment, partial, slotMarksHash)) &&
          (await hasHash(this.#environment, directory, directoryHash))
        const held = isWhole ? await HeldFilter.read(this.#environment, at, directory, partial) : ''
        if (typeof held !== 'string') return held
      }
    } catch (error) {
      if (!isMoved(error)) throw error
      if (!(error instanceof StateUnreadableError)) return undefined // another tab has just replaced it
    }
    this.#isDamaged = true
    isDamaged()
    return undefined
  }

  /** Stores a filter, unless what is stored is of this epoch or of a later one. */
  async put(held: HeldFilter): Promise<void> {
    if (!this.#store.durable) return
    const { manifest, bytes, signature } = held.at
    const epoch = { manifest: bytes, signature }
    const directory = held.encode()
    for (let attempt = 1; ; attempt++) {
      const head = await readable(this.#store)
      const before = agreedIn(head)?.manifest
      const isSame = before !== undefined && equalBytes(before.databaseId, manifest.databaseId)
      if (isSame && !this.#isDamaged && before.epoch >= manifest.epoch) return
      try {
        if (head === undefined || !isSame || this.#isDamaged) {
          const record = { hintId: this.#environment.random(16), scheme: SCHEME, parties: [], fenced: [], ...epoch }
          await this.#store.begin(record, held.marks, directory, head?.record.hintId)
          this.#isDamaged = false
          return
        }
        const update = { partial: held.marks, directory, ...epoch }
        return await this.#store.updatePartial(head.record.hintId, head.version, update)
      } catch (error) {
        if (!isMoved(error) || attempt === ATTEMPTS) throw error // another tab has been quicker
        this.#isDamaged = false
      }
    }
  }
}

function agreedIn(head: StateHead | undefined): Agreed | undefined {
  if (head === undefined || head.record.scheme !== SCHEME || head.stage !== 'partial') return undefined
  const { manifest: bytes, signature } = head.record
  const manifest = readManifest(bytes)
  return manifest && { manifest, bytes, signature }
}
