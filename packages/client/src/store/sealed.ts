// Encryption at rest, between the client and any other store. Secrets (partial hints, checkpoints, rows, pending lookups,
// journal entries) are sealed with AES-256-GCM under a key that the platform keeps and does not export. The head's other
// fields, manifests, directories and what verifies answers are public and stay readable.
//
// Every value is bound to its kind, its hint, its scheme and parties, to the fences that know the hint, and to its version.
// So an attacker who can write the disk but not use the key cannot move a pending lookup to another version, reorder entries,
// swap values of two hints, exchange the roles, or keep a client from asking the fence: the value does not unseal, and the
// state is unreadable (S3). The core binds hints to their epoch.
//
// A long value is sealed in pieces, and the page gets its thread back between two. Each piece is bound to its number, to how
// many there are, and to the first one's nonce, so that pieces of two values cannot be mixed.
//
// What this protects against: a script that reads the database (a malicious dependency, an extension) can use the key while
// it runs, but cannot read a copied hint elsewhere; and remains of deleted rows in the database's files are unreadable.
// What it does not protect against: a copy of the whole profile includes the key. And a seal cannot notice that a whole old
// state was put back, or that the newest entries were cut off and the head's version set back: the fence does (S8).

import { equalBytes, toHex } from '@keyhush/protocol'
import {
  type Advance,
  type HintRecord,
  type PartialUpdate,
  type StateHead,
  StateMovedError,
  type StateStore,
  StateUnreadableError,
  type StoredCheckpoint,
  type StoredHint,
  type StoredPartial,
} from './store.js'

type SealedKind = 'partial' | 'checkpoint' | 'pending' | 'entry'

// The stored form: magic; then for each piece its nonce, and its ciphertext with its tag. All pieces but the last have full
// length; an empty value has one piece. A later form has another magic. layouts.test.ts holds it.
const MAGIC = Uint8Array.of(0x50, 0x49, 0x52, 0x73, 2) // PIRs
/** Sealing one, and copying it, takes a slow phone some milliseconds. */
const PIECE_BYTES = 512 << 10
const NONCE_BYTES = 12
const TAG_BYTES = 16
const AROUND_BYTES = NONCE_BYTES + TAG_BYTES
// Random nonces of 96 bits are good for 2^32 pieces under one key; a hint of 2^30 lookups is long gone by then.
const ALGORITHM = 'AES-GCM'

/** A key to seal with. It cannot be exported. */
export async function newSealingKey(): Promise<CryptoKey> {
  return await crypto.subtle.generateKey({ name: ALGORITHM, length: 256 }, false, ['encrypt', 'decrypt'])
}

export class SealedStore implements StateStore {
  readonly durable: boolean
  readonly #inner: StateStore
  readonly #key: () => Promise<CryptoKey>
  readonly #pause: () => Promise<void>
  /** of the hint seen last; values are bound to all of it but the manifest, which alone changes */
  #record: HintRecord | undefined
  /** resolves when the last entry or pending lookup was passed to the store below */
  #begun: Promise<void> = Promise.resolve()

  /**
   * `key` is called at every use: the key may change with the store below. `pause` gives the page its thread back, since
   * browsers may seal piece after piece without a turn.
   */
  constructor(inner: StateStore, key: () => Promise<CryptoKey>, pause: () => Promise<void> = async () => {}) {
    this.durable = inner.durable
    this.#inner = inner
    this.#key = key
    this.#pause = pause
  }

  async read(): Promise<StateHead | undefined> {
    const head = await this.#inner.read()
    if (head === undefined) return undefined
    this.#record = head.record
    const { pending, version } = head
    return { ...head, pending: pending && (await this.#open(head.record, 'pending', version, pending)) }
  }

  async readPartial(hintId: Uint8Array): Promise<StoredPartial> {
    const record = await this.#recordOf(hintId)
    const { version, partial, directory } = await this.#inner.readPartial(hintId)
    return { version, partial: await this.#open(record, 'partial', version, partial), directory }
  }

  async readHint(hintId: Uint8Array): Promise<StoredHint> {
    const record = await this.#recordOf(hintId)
    const { version, checkpoint, manifest, directory, entries, rows } = await this.#inner.readHint(hintId)
    return {
      version,
      checkpoint: await this.#open(record, 'checkpoint', version, checkpoint),
      manifest,
      directory,
      entries: await this.#openEntries(record, version, entries),
      rows,
    }
  }

  async readEntries(hintId: Uint8Array, from: number): Promise<readonly Uint8Array[] | undefined> {
    const record = await this.#recordOf(hintId)
    const entries = await this.#inner.readEntries(hintId, from)
    return entries && (await this.#openEntries(record, from, entries))
  }

  async begin(
    record: HintRecord,
    partial: Uint8Array,
    directory: Uint8Array,
    replaces: Uint8Array | undefined,
    rows?: readonly string[],
  ): Promise<void> {
    const sealed = await this.#seal(record, 'partial', 0, partial)
    try {
      await this.#inner.begin(record, sealed, directory, replaces, rows)
    } catch (error) {
      if (replaces !== undefined || !(error instanceof StateMovedError)) throw error
      // There is a state, which perhaps cannot be unsealed.
      const unsealable = await this.#unsealable()
      if (unsealable === undefined) throw error
      await this.#inner.begin(record, sealed, directory, unsealable, rows)
    }
    this.#record = record
  }

  async putPartial(hintId: Uint8Array, version: number, partial: Uint8Array): Promise<void> {
    const record = await this.#recordOf(hintId)
    await this.#inner.putPartial(hintId, version, await this.#seal(record, 'partial', version, partial))
  }

  async updatePartial(hintId: Uint8Array, version: number, update: PartialUpdate): Promise<void> {
    const record = await this.#recordOf(hintId)
    const partial = await this.#seal(record, 'partial', version + 1, update.partial)
    await this.#inner.updatePartial(hintId, version, { ...update, partial })
  }

  async complete(hintId: Uint8Array, version: number, checkpoint: Uint8Array, rows?: readonly string[]): Promise<void> {
    const record = await this.#recordOf(hintId)
    await this.#inner.complete(hintId, version, await this.#seal(record, 'checkpoint', version, checkpoint), rows)
  }

  async putPending(hintId: Uint8Array, version: number, pending: Uint8Array): Promise<void> {
    const record = await this.#recordOf(hintId)
    try {
      await this.#inOrder(this.#seal(record, 'pending', version, pending), sealed =>
        this.#inner.putPending(hintId, version, sealed),
      )
    } catch (error) {
      if (!(error instanceof StateMovedError)) throw error
      // The same bytes look different when they are sealed twice. If they are what is pending, the sealed form that is
      // stored is stored again, and the store below sees no change.
      const head = await this.#inner.read()
      if (head?.pending === undefined || head.version !== version) throw error
      if (!equalBytes(head.record.hintId, hintId)) throw error
      if (!equalBytes(await this.#open(record, 'pending', version, head.pending), pending)) throw error
      await this.#inner.putPending(hintId, version, head.pending)
    }
  }

  async commit(hintId: Uint8Array, version: number, effect: Uint8Array): Promise<{ journalBytes: number }> {
    const record = await this.#recordOf(hintId)
    return await this.#inOrder(this.#seal(record, 'entry', version, effect), sealed =>
      this.#inner.commit(hintId, version, sealed),
    )
  }

  async advance(hintId: Uint8Array, version: number, update: Advance): Promise<{ journalBytes: number }> {
    const record = await this.#recordOf(hintId)
    const sealing = async () => ({
      entry: await this.#seal(record, 'entry', version, update.entry),
      pending: update.pending && (await this.#seal(record, 'pending', version + 1, update.pending)),
    })
    return await this.#inOrder(sealing(), sealed => this.#inner.advance(hintId, version, { ...update, ...sealed }))
  }

  /** Entries and pending lookups reach the store below in the order of the calls, however long sealing takes. */
  async #inOrder<S, T>(sealing: Promise<S>, write: (sealed: S) => Promise<T>): Promise<T> {
    const before = this.#begun
    let begun = () => {}
    this.#begun = new Promise(resolve => {
      begun = resolve
    })
    try {
      const sealed = await sealing
      await before
      const written = write(sealed)
      begun()
      return await written
    } finally {
      begun()
    }
  }

  async putCheckpoint(
    hintId: Uint8Array,
    version: number,
    stored: StoredCheckpoint,
    rows?: readonly string[],
  ): Promise<void> {
    const record = await this.#recordOf(hintId)
    const checkpoint = await this.#seal(record, 'checkpoint', version, stored.checkpoint)
    await this.#inner.putCheckpoint(hintId, version, { ...stored, checkpoint }, rows)
  }

  // A row may be of a hint that has no record yet. It is bound to its name instead.

  async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    await this.#inner.putRow(hintId, name, await this.#sealed(boundRow(hintId, name), row))
  }

  sweepRows(of?: Uint8Array): Promise<void> {
    return this.#inner.sweepRows(of)
  }

  async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    const row = await this.#inner.readRow(hintId, name, since)
    return await this.#opened('row', boundRow(hintId, name), row)
  }

  putVerifier(hintId: Uint8Array, verifier: Uint8Array): Promise<void> {
    return this.#inner.putVerifier(hintId, verifier)
  }

  readVerifier(hintId: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#inner.readVerifier(hintId)
  }

  condemn(hintId: Uint8Array, culprit: string | undefined): Promise<void> {
    return this.#inner.condemn(hintId, culprit)
  }

  async discard(hintId: Uint8Array | undefined): Promise<void> {
    await this.#inner.discard(hintId ?? (await this.#unsealable()))
  }

  async erase(): Promise<void> {
    await this.#inner.erase()
    this.#record = undefined
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  async #recordOf(hintId: Uint8Array): Promise<HintRecord> {
    if (this.#record === undefined || !equalBytes(this.#record.hintId, hintId)) {
      this.#record = (await this.#inner.read())?.record
    }
    if (this.#record === undefined) throw new StateMovedError('no state is stored')
    if (!equalBytes(this.#record.hintId, hintId)) throw new StateMovedError('the stored state is of another hint')
    return this.#record
  }

  /** The id of a hint whose head only the store below can read. To callers it is an unreadable state. */
  async #unsealable(): Promise<Uint8Array | undefined> {
    let hintId: Uint8Array | undefined
    try {
      hintId = (await this.#inner.read())?.record.hintId
      await this.read()
      return undefined
    } catch (error) {
      if (error instanceof StateUnreadableError) return hintId
      throw error
    }
  }

  async #openEntries(record: HintRecord, from: number, entries: readonly Uint8Array[]): Promise<Uint8Array[]> {
    return await Promise.all(entries.map((entry, i) => this.#open(record, 'entry', from + i, entry)))
  }

  #seal(record: HintRecord, kind: SealedKind, version: number, value: Uint8Array): Promise<Uint8Array> {
    return this.#sealed(boundTo(record, kind, version), value)
  }

  #open(record: HintRecord, kind: SealedKind, version: number, sealed: Uint8Array): Promise<Uint8Array> {
    return this.#opened(kind, boundTo(record, kind, version), sealed)
  }

  async #sealed(bound: Bound, value: Uint8Array): Promise<Uint8Array> {
    const key = await this.#key()
    const pieces = Math.max(1, Math.ceil(value.length / PIECE_BYTES))
    const sealed = new Uint8Array(MAGIC.length + value.length + pieces * AROUND_BYTES)
    sealed.set(MAGIC)
    for (let piece = 0, start = MAGIC.length; piece < pieces; piece++) {
      const iv = crypto.getRandomValues(sealed.subarray(start, start + NONCE_BYTES))
      const parameters = { name: ALGORITHM, iv, additionalData: additionalData(bound, pieceBindings(sealed, piece)) }
      const plaintext = value.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES) as Uint8Array<ArrayBuffer>
      const ciphertext = new Uint8Array(await crypto.subtle.encrypt(parameters, key, plaintext))
      sealed.set(ciphertext, start + NONCE_BYTES)
      start += NONCE_BYTES + ciphertext.length
      if (pieces > 1) await this.#pause()
    }
    return sealed
  }

  async #opened(kind: SealedKind | 'row', bound: Bound, sealed: Uint8Array): Promise<Uint8Array> {
    const unreadable = () =>
      new StateUnreadableError(`the stored ${kind} cannot be decrypted: its key is lost, or it was changed`)
    const pieces = piecesOf(sealed)
    const length = sealed.length - MAGIC.length - pieces * AROUND_BYTES
    const isWhole = length >= (pieces - 1) * PIECE_BYTES
    if (!equalBytes(sealed.subarray(0, MAGIC.length), MAGIC) || !isWhole) throw unreadable()
    const key = await this.#key()
    const value = new Uint8Array(length)
    const unseal = (piece: number) => {
      const start = MAGIC.length + piece * (AROUND_BYTES + PIECE_BYTES)
      const iv = sealed.slice(start, start + NONCE_BYTES)
      const ciphertext = sealed.subarray(
        start + NONCE_BYTES,
        start + AROUND_BYTES + PIECE_BYTES,
      ) as Uint8Array<ArrayBuffer>
      const parameters = { name: ALGORITHM, iv, additionalData: additionalData(bound, pieceBindings(sealed, piece)) }
      const plaintext = crypto.subtle.decrypt(parameters, key, ciphertext)
      plaintext.catch(() => {}) // once it is waited for
      return plaintext
    }
    // The next one is opened in another thread while the page has this one.
    let next = unseal(0)
    for (let piece = 0; piece < pieces; piece++) {
      const plaintext = await next.catch(() => {
        throw unreadable()
      })
      if (piece + 1 < pieces) next = unseal(piece + 1)
      value.set(new Uint8Array(plaintext), piece * PIECE_BYTES)
      if (pieces > 1) await this.#pause()
    }
    return value
  }
}

/** How many pieces a sealed value has. */
function piecesOf(sealed: Uint8Array): number {
  return Math.max(1, Math.ceil((sealed.length - MAGIC.length) / (PIECE_BYTES + AROUND_BYTES)))
}

/** What each of several pieces is bound to besides: its number, how many there are, and the first one's nonce. */
function pieceBindings(sealed: Uint8Array, piece: number): readonly (number | string)[] {
  const pieces = piecesOf(sealed)
  if (pieces === 1) return []
  return [piece, pieces, piece === 0 ? '' : toHex(sealed.subarray(MAGIC.length, MAGIC.length + NONCE_BYTES))]
}

/** What a value is bound to. */
type Bound = readonly (number | string | readonly string[])[]

function boundTo({ hintId, scheme, parties, fenced }: HintRecord, kind: SealedKind, version: number): Bound {
  return ['keyhush', kind, version, toHex(hintId), scheme, parties, fenced]
}

function boundRow(hintId: Uint8Array, name: string): Bound {
  return ['keyhush', 'row', name, toHex(hintId)]
}

/** The additional data of a piece's seal. JSON, because it is unambiguous for strings and numbers. */
function additionalData(bound: Bound, piece: ReturnType<typeof pieceBindings>): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify([...bound, ...piece]))
}
