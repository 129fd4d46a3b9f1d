// The newest epoch that lookups without a state have shown, for the next life of a map with a publisher's key: else two servers that
// lie together could take it back to an older signed epoch. It is a head and nothing else, in a store of its own beside the state's,
// since a half-made state may be at an older epoch. Best effort: nothing waits for it, or fails with it.

import { fromHex, toHex } from '@keyhush/protocol'
import { ATTEMPTS, SHOWN_MS } from '../base/constants.js'
import type { Environment } from '../platform/environment.js'
import { inTime } from '../servers/ask.js'
import { type Servers, shownIdentity } from '../servers/parties.js'
import type { EpochId } from '../servers/signatures.js'
import type { Parts } from '../state/machine.js'
import { isMoved, readable } from '../store/storage.js'
import type { StateHead, StateStore } from '../store/store.js'

const NOTHING = new Uint8Array()
const SCHEME = 'shown'

export class Shown {
  readonly #store: StateStore
  readonly #environment: Pick<Environment, 'clock' | 'random'>
  /** where earlier lives have been; undefined: not known */
  readonly at: EpochId | undefined
  #writing: Promise<void> = Promise.resolve()

  private constructor(store: StateStore, environment: Environment, at: EpochId | undefined) {
    this.#store = store
    this.#environment = environment
    this.at = at
  }

  /** Undefined: the map has no publisher's key, or there is no durable storage, or none in time. */
  static async open(
    parts: Pick<Parts, 'environment' | 'servers' | 'preference' | 'signing'>,
  ): Promise<Shown | undefined> {
    const { environment, servers, preference, signing } = parts
    if (signing === undefined || preference === 'memory') return undefined
    const opening = openedBy(environment, servers).catch(() => undefined)
    const opened = await inTime(environment.clock, SHOWN_MS, opening)
    if (opened === undefined) opening.then(late => late?.store.close()).catch(() => {})
    return opened && new Shown(opened.store, environment, opened.at)
  }

  /** Begins to store that the map has been there. */
  note({ databaseId, epoch }: EpochId): void {
    this.#writing = this.#writing.then(() => this.#put({ databaseId, epoch })).catch(() => {})
  }

  async #put(at: EpochId): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const head = await readable(this.#store)
      if (head !== undefined && head.record.scheme !== SCHEME) return // an app's store that knows no identities has a state there
      if ((epochIn(head)?.epoch ?? 0) >= at.epoch) return
      const hintId = this.#environment.random(16)
      const record = { hintId, scheme: SCHEME, parties: [], fenced: [], manifest: encoded(at) }
      try {
        return await this.#store.begin(record, NOTHING, NOTHING, head?.record.hintId)
      } catch (error) {
        if (!isMoved(error) || attempt === ATTEMPTS) throw error // another tab has been quicker
      }
    }
  }

  /** Waits for what is being stored, but not for long. */
  async close(): Promise<void> {
    await inTime(this.#environment.clock, SHOWN_MS, this.#writing)
    await this.#store.close().catch(() => {})
  }
}

async function openedBy(environment: Environment, servers: Servers) {
  const { store } = await environment.openStore(shownIdentity(servers), 'required')
  try {
    if (store.durable) return { store, at: epochIn(await readable(store)) }
  } catch (error) {
    await store.close()
    throw error
  }
  await store.close()
  return undefined
}

function encoded({ databaseId, epoch }: EpochId): Uint8Array {
  return new TextEncoder().encode(JSON.stringify([toHex(databaseId), epoch]))
}

/** Undefined: there is nothing, or nothing that `encoded` has made. */
function epochIn(head: StateHead | undefined): EpochId | undefined {
  if (head === undefined) return undefined
  try {
    const [databaseId, epoch] = JSON.parse(new TextDecoder().decode(head.record.manifest))
    return Number.isSafeInteger(epoch) ? { databaseId: fromHex(databaseId), epoch } : undefined
  } catch {
    return undefined
  }
}
