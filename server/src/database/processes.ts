// Processes that share a storage show epochs together. A replica catches up: it takes up what the process that writes has stored, epoch by
// epoch, while queries go on.

import { decodeManifest, type EpochStatus } from '@keyhush/protocol'
import { DatasetError, readingFrom } from '../base/errors.js'
import type { Storage } from '../storage/storage.js'
import { Announcements } from './announcements.js'
import type { Answered, StoredEpoch } from './answered.js'
import type { EpochStore } from './epoch-store.js'
import { infoOf } from './epochs.js'
import type { History } from './history.js'
import { loadNewest } from './loading.js'
import { followBase } from './one-server.js'
import type { Queue } from './queue.js'
import type { Signatures } from './signatures.js'
import { MisfitError, takeList } from './taking.js'

/** What a database has, for publishing and catching up. */
export interface Together {
  readonly storage: Storage
  readonly store: EpochStore
  readonly answered: Answered
  readonly past: History
  readonly signed: Signatures
  readonly queue: Queue
}

export class Processes {
  readonly #database: Together
  /** where processes share the storage: says when all show an epoch */
  #announcements: Announcements | undefined

  constructor(database: Together) {
    this.#database = database
  }

  /** Why other processes are ahead of this one, for people; undefined: they are not. */
  get behind(): string | undefined {
    return this.#announcements?.behind
  }

  /** Takes part in what processes that share the storage decide together. */
  async join(isReplica: boolean): Promise<void> {
    const { answered, signed, queue, storage } = this.#database
    const { engine } = storage
    if (engine === undefined) return
    this.#announcements = await Announcements.begin(engine, {
      writes: !isReplica,
      has: () => answered.latest.manifest.epoch,
      shows: () => answered.newest.manifest.epoch,
      catchUp: () => queue(() => this.#catchUp()),
      show: epoch => {
        if (epoch >= answered.latest.manifest.epoch) answered.show()
      },
      fail: error => answered.fail(error),
    })
    signed.follow(engine)
  }

  /** An epoch is stored. Resolves once all processes show it; its publisher does not wait for them. */
  async announce(stored: StoredEpoch, status: EpochStatus, onStored: (status: EpochStatus) => void): Promise<void> {
    const { answered, past } = this.#database
    past.noteStatus(status)
    answered.staged = stored
    if (this.#announcements !== undefined) {
      onStored(status)
      await this.#announcements.announced(stored.epoch.manifest.epoch)
    }
    answered.show()
  }

  async stop(): Promise<void> {
    await this.#announcements?.stop()
  }

  /** Takes up what the process that writes has stored since. */
  async #catchUp(): Promise<void> {
    const { answered, past, store } = this.#database
    const head = await store.head()
    while (head !== undefined && head.epoch > answered.latest.manifest.epoch) {
      answered.show() // it has been announced: there is a later one
      const stored = await readingFrom(store.location, () => this.#takeNext())
      const { base } = stored.generation
      if (base?.prepared === undefined) await answered.preparing.prepare(base, stored.generation)
      await base?.prepared?.made.catch(() => {}) // /readyz names it
      const batch = await store.batch(stored.epoch.manifest.epoch)
      if (batch !== undefined) past.noteStatus({ ...infoOf(stored.epoch), ...batch })
      answered.staged = stored
      if (stored.generation !== answered.generation) await past.index()
    }
  }

  /** Takes up the epoch after the newest. After a DatasetError memory is of no use. */
  async #takeNext(): Promise<StoredEpoch> {
    const { answered, store } = this.#database
    const { newest, generation } = answered
    const { manifest } = newest
    const [bytes, list] = [await store.manifest(manifest.epoch + 1), await store.lists.read(manifest.epoch + 1)]
    const next = bytes && { manifest: decodeManifest(bytes), bytes }
    if (next === undefined || list === undefined || next.manifest.generation !== manifest.generation) {
      return this.#takeGeneration()
    }
    try {
      const { directory } = await takeList(generation, next, list, () => answered.begun())
      const directoryBytes = directory?.bytes ?? new Uint8Array()
      followBase(generation, { manifest: next.manifest, directoryBytes, list })
      return { epoch: generation.epochOf(next, directoryBytes), previous: newest, generation, until: 0 }
    } catch (error) {
      if (!(error instanceof MisfitError)) throw error
      throw new DatasetError(store.location, `${error.message}; begin a new store`)
    }
  }

  /** Another generation, or epochs that no list leads to any more: loads the newest epoch beside what is answered. */
  async #takeGeneration(): Promise<StoredEpoch> {
    const { storage, answered } = this.#database
    const { loaded, head } = await loadNewest(answered.generation.core, storage, true)
    const isOld = head.old?.epoch === answered.newest.manifest.epoch
    return { ...loaded, until: isOld ? head.old.until : 0 }
  }
}
