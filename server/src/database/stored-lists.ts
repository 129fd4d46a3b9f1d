// Update lists in the storage, in pieces, so that a part of one can be read. A list that is too long for one transaction is
// staged: its pieces are written under its epoch's number first, and one transaction makes the epoch then.

import { randomUUID } from 'node:crypto'
import { equalBytes } from '@keyhush/protocol'
import { Pace } from '../base/pace.js'
import { type Storage, type Transaction, wholePages } from '../storage/storage.js'
import { ANOTHER_PROCESS, HEAD, hex, json, putSealed, readHead, SEAL_BYTES, unsealed } from './stored-values.js'

export const LIST = 'list/'
/** marks that an attempt stages a list */
export const STAGED = 'staged'

const PIECE_BYTES = wholePages(16) - SEAL_BYTES

/** Pieces that are written in one transaction. */
const PIECES_TOGETHER = 32

export class StoredLists {
  readonly #storage: Storage

  constructor(storage: Storage) {
    this.#storage = storage
  }

  /** The update list that leads to `epoch`. */
  async read(epoch: number): Promise<Uint8Array | undefined> {
    const [pieces, pace]: [Uint8Array[], Pace] = [[], new Pace()]
    let length = 0
    for await (const [key, bytes] of this.#storage.entries(listPrefix(epoch))) {
      const piece = unsealed(key, bytes)
      pieces.push(piece)
      length += piece.length
      await pace.yield()
    }
    if (pieces.length === 0) return undefined
    const list = Buffer.allocUnsafe(length)
    let start = 0
    for (const piece of pieces) {
      list.set(piece, start)
      start += piece.length
      await pace.yield()
    }
    return list
  }

  /** Bytes `first` to `last` of that list, both included. Throws if it has gone. */
  async slice(epoch: number, first: number, last: number): Promise<Uint8Array> {
    const slice = Buffer.alloc(last - first + 1)
    for (let piece = Math.floor(first / PIECE_BYTES); piece * PIECE_BYTES <= last; piece++) {
      const start = piece * PIECE_BYTES
      const key = listPrefix(epoch) + hex(piece)
      const sealed = await this.#storage.get(key)
      if (sealed === undefined) throw new Error('the update list was removed while it was read; read it again')
      const bytes = unsealed(key, sealed)
      slice.set(bytes.subarray(Math.max(0, first - start), last + 1 - start), Math.max(0, start - first))
    }
    return slice
  }

  /**
   * Writes a long list of an epoch to come, which means nothing before a head names the epoch. Returns the mark that `isStaged` is
   * to find then; undefined: the list is short. false: another process stages one, or has published.
   */
  async stage(epoch: number, list: Uint8Array): Promise<Uint8Array | undefined | false> {
    if (list.length <= PIECES_TOGETHER * PIECE_BYTES) return undefined
    const mark = newMark()
    const isMarked = await this.#storage.transact([HEAD, STAGED], transaction => {
      if (readHead(transaction)?.epoch !== epoch - 1 || !isStaged(transaction, undefined)) return false
      transaction.put(STAGED, mark)
      return true
    })
    if (!isMarked) return false
    for (let first = 0; first * PIECE_BYTES < list.length; first += PIECES_TOGETHER) {
      const isOurs = await this.#storage.transact([STAGED], transaction => {
        if (!isStaged(transaction, mark)) return false
        putPieces(transaction, epoch, list, first, first + PIECES_TOGETHER)
        return true
      })
      if (!isOurs) return false
    }
    return mark
  }

  /**
   * Removes a list that was staged and whose epoch never came to be. A mark of its own comes first: neither the process that
   * staged the list nor another that sweeps may take what is left for the whole list.
   */
  async sweep(): Promise<void> {
    const found = await this.#storage.get(STAGED)
    if (found === undefined) return
    const mark = newMark()
    const epoch = await this.#storage.transact([HEAD, STAGED], transaction => {
      if (!isStaged(transaction, found)) return undefined
      transaction.put(STAGED, mark)
      return readHead(transaction)?.epoch
    })
    if (epoch === undefined) return
    const prefix = listPrefix(epoch + 1)
    for (let first = 0; (await this.#storage.count(prefix)) > 0; first += PIECES_TOGETHER) {
      await this.#storage.transact([HEAD, STAGED], transaction => {
        if (readHead(transaction)?.epoch !== epoch || !isStaged(transaction, mark)) throw new Error(ANOTHER_PROCESS)
        for (let piece = first; piece < first + PIECES_TOGETHER; piece++) transaction.remove(prefix + hex(piece))
      })
    }
    await this.#storage.transact([STAGED], transaction => {
      if (isStaged(transaction, mark)) transaction.remove(STAGED)
    })
  }
}

/** Writes a list's pieces, from one number to before another. */
export function putPieces(transaction: Transaction, epoch: number, list: Uint8Array, first = 0, end = Infinity): void {
  for (let piece = first; piece < end && piece * PIECE_BYTES < list.length; piece++) {
    const bytes = list.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES)
    putSealed(transaction, listPrefix(epoch) + hex(piece), bytes)
  }
}

/** Whether a list is staged under this mark; undefined: whether none is. */
export function isStaged(from: Transaction, mark: Uint8Array | undefined): boolean {
  const found = from.get(STAGED)
  return found === undefined || mark === undefined ? found === mark : equalBytes(found, mark)
}

function newMark(): Uint8Array {
  return json(STAGED, { attempt: randomUUID() })
}

function listPrefix(epoch: number): string {
  return `${LIST + hex(epoch)}/`
}
