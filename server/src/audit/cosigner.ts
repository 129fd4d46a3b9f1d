// An auditor as a witness (docs/operations/witnesses.md): it signs a log's checkpoints (c2sp.org/tlog-witness), if their entries are the epochs
// that it has checked itself. Entries from before it began it takes from the log, once.
//
// 1. A checkpoint continues the one that was signed last. Its root is computed from the epochs that were checked.
// 2. It is stored before its signature exists. So after a kill no shorter log is signed, and no other one.

import { createHash } from 'node:crypto'
import { equalBytes, fromHex, toHex } from '@keyhush/protocol'
import {
  type Checkpoint,
  continues,
  EMPTY_EDGE,
  encodeNoteKey,
  grown,
  LogError,
  leafHash,
  logOrigin,
  type NoteKey,
  noteKey,
  type Path,
  parseCheckpoint,
  parseNote,
  type RightEdge,
  rootOf,
  rootOfEdge,
  signersOf,
  WITNESS_KEY,
} from '@keyhush/protocol/log'
import { verifies } from '../base/ed25519.js'
import { PublishError } from '../base/errors.js'
import { newQueue } from '../database/queue.js'
import { parse, putJson } from '../database/stored-values.js'
import type { KeyPair } from '../publisher/files.js'
import { cosigned, parseSubmission, type ReadSubmission, type Submission } from '../publisher/submission.js'
import type { ReadTiles } from '../publisher/tiles.js'
import type { Storage } from '../storage/storage.js'
import { firstChecked, leafOf } from './leaves.js'

export interface CosignerOptions {
  /** the auditor's, with epochs in it */
  readonly storage: Storage
  readonly databaseId: Uint8Array
  readonly log: NoteKey
  /** the witness's name in policies */
  readonly name: string
  readonly key: KeyPair
  /** the log's files, for what is before the first epoch that was checked */
  readonly files?: ReadTiles | undefined
  /** Resolves when a look that has begun since has ended, or it takes too long. */
  readonly look: () => Promise<void>
}

/** What a log's request is answered with. */
export interface CosignerReply {
  readonly status: number
  readonly text: string
}

/** What is stored of a log. */
interface Seen {
  /** of the checkpoint that was signed last; 0: none */
  readonly size: number
  readonly root: Uint8Array
  /** of that, or of a longer log whose first entries were read from its files */
  readonly edge: RightEdge
}

/** Requests of the log that wait at most. Others cannot make any wait. */
const MOST_WAITING = 8
/** Of an epoch that the log does not know. It vouches for nothing. */
const UNKNOWN = leafHash(new Uint8Array())

export class Cosigner {
  readonly #options: CosignerOptions
  readonly #witness: NoteKey
  readonly #storeKey: string
  readonly #queue = newQueue()
  #waiting = 0
  #seen: Seen = { size: 0, root: rootOf([]), edge: EMPTY_EDGE }

  private constructor(options: CosignerOptions) {
    this.#options = options
    this.#witness = noteKey(options.name, WITNESS_KEY, options.key.publicKey)
    this.#storeKey = `cosigned/${createHash('sha256').update(options.log.name).digest('hex')}`
  }

  /**
   * @throws {PublishError} if the log is another database's; if its files are not its checkpoint's, or have another epoch than was checked
   * @example
   * const cosigner = await Cosigner.open({ storage, databaseId, log, name: 'auditor.example/w', key, look })
   * const { status, text } = await cosigner.answer(body)
   */
  static async open(options: CosignerOptions): Promise<Cosigner> {
    const { storage, databaseId, log, files } = options
    if (log.name !== logOrigin(log.name.slice(0, log.name.lastIndexOf('/')), databaseId))
      throw new PublishError(`--log: expected the log of this database, got that of ${log.name}; name its own`)
    const cosigner = new Cosigner(options)
    const stored = await storage.get(cosigner.#storeKey)
    if (stored !== undefined) cosigner.#seen = decode(parse(cosigner.#storeKey, stored))
    if (files !== undefined) await cosigner.#join(files)
    return cosigner
  }

  /** Entries of the checkpoint that was signed last, whose last one is the epoch of that number; 0: none was. */
  get size(): number {
    return this.#seen.size
  }

  /** For a line of a policy. */
  static keyOf(name: string, { publicKey }: KeyPair): string {
    return encodeNoteKey(noteKey(name, WITNESS_KEY, publicKey))
  }

  /** Answers `POST /add-checkpoint`. Rejects with StorageError; then nothing was signed. */
  async answer(body: string): Promise<CosignerReply> {
    try {
      const submission = parseSubmission(body)
      const { log } = this.#options
      if (submission.checkpoint.origin !== log.name)
        return refused(404, 'expected the log that is audited, got another')
      if (!(await this.#isSigned(submission))) return refused(403, "expected the log's signature, got another")
      if (this.#waiting === MOST_WAITING) return refused(503, 'too many requests of this log are waiting; come again')
      this.#waiting++
      return await this.#queue(() => this.#sign(submission)).finally(() => this.#waiting--)
    } catch (error) {
      if (error instanceof LogError) return refused(400, error.message)
      throw error
    }
  }

  async #isSigned({ note }: Submission): Promise<boolean> {
    const { log } = this.#options
    return await signersOf(note, [log], verifies).then(
      signers => signers.has(log),
      () => false,
    )
  }

  async #sign({ old, path, note, checkpoint }: ReadSubmission): Promise<CosignerReply> {
    const { storage, key, look } = this.#options
    const { size, root, edge } = this.#seen
    if (old !== size) return refused(409, `${size}`)
    if (!continues(this.#seen, checkpoint, path)) return refused(422, 'expected a log that continues what was signed')
    if (checkpoint.size > size || !equalBytes(checkpoint.root, root)) {
      if ((await leafOf(storage, checkpoint.size)) === undefined) await look()
      if ((await leafOf(storage, checkpoint.size)) === undefined)
        return refused(503, 'expected an epoch that was checked, got another; come again')
      const next = await this.#edgeOf(checkpoint)
      const first = await firstChecked(storage)
      if (next === undefined && edge.size < first - 1)
        return refused(503, `the entries before epoch ${first} are not known here: the auditor needs --log-files`)
      if (next === undefined) return refused(422, 'expected the epochs that were checked, got other entries')
      await this.#keep({ size: checkpoint.size, root: checkpoint.root, edge: next })
    }
    return { status: 200, text: cosigned(note.text, this.#witness, key.secretKey, Date.now() / 1000) }
  }

  /** The tree of a checkpoint whose last epoch was checked. The log may not know those before: then none since the last checkpoint. */
  async #edgeOf({ size, root }: Checkpoint): Promise<RightEdge | undefined> {
    let all: RightEdge | undefined = this.#seen.edge
    let last = this.#seen.edge
    for (let epoch = last.size + 1; epoch <= size; epoch++) {
      const leaf = await leafOf(this.#options.storage, epoch)
      all = all && leaf && grown(all, leaf)
      last = grown(last, epoch === size ? leaf! : UNKNOWN)
    }
    return [all, last].find(edge => edge !== undefined && edge.size === size && equalBytes(rootOfEdge(edge), root))
  }

  async #keep(seen: Seen): Promise<void> {
    await this.#options.storage.transact([], transaction => putJson(transaction, this.#storeKey, encode(seen)))
    this.#seen = seen
  }

  /** Takes what is before the first epoch that was checked from the log's files. What comes later has to be what was checked, or unknown. */
  async #join(files: ReadTiles): Promise<void> {
    const { storage, log } = this.#options
    const leaves = await leavesIn(files, log)
    const { size, root, edge: before } = this.#seen
    if (leaves.length <= before.size) return
    if (!equalBytes(rootOf(leaves.slice(0, size)), root)) throw forked('entries that continue what was signed')
    const first = await firstChecked(storage)
    let edge = EMPTY_EDGE
    for (const [i, leaf] of leaves.entries()) {
      const own = i + 1 < first ? leaf : await leafOf(storage, i + 1)
      if (own === undefined) break // not checked yet
      if (!equalBytes(leaf, own) && !equalBytes(leaf, UNKNOWN)) throw forked(`epoch ${i + 1} as it was checked`)
      edge = grown(edge, leaf)
    }
    await this.#keep({ ...this.#seen, edge })
  }
}

/** The leaves of the log's newest checkpoint. */
async function leavesIn(files: ReadTiles, log: NoteKey): Promise<Path> {
  const why = `--log-files: expected the files of ${log.name}, got`
  const text = await files.checkpoint()
  if (text === undefined) throw new PublishError(`${why} no checkpoint; name its folder \`public\`, or where that is`)
  try {
    const note = parseNote(text)
    const { origin, size, root } = parseCheckpoint(note.text)
    const isIts = origin === log.name && (await signersOf(note, [log], verifies)).has(log)
    const leaves = isIts ? await files.leaves(size) : []
    if (isIts && leaves.length === size && equalBytes(rootOf(leaves), root)) return leaves
  } catch (error) {
    if (!(error instanceof LogError)) throw error
  }
  throw new PublishError(`${why} others, or damaged ones; ask its publisher`)
}

function forked(expected: string): PublishError {
  return new PublishError(
    `--log-files: expected ${expected}, got other entries. Nothing was signed. Show it to those who use the map`,
    4,
  )
}

function refused(status: number, text: string): CosignerReply {
  return { status, text: `${text}\n` }
}

function encode({ size, root, edge }: Seen): object {
  return { size, root: toHex(root), edge: { size: edge.size, roots: edge.roots.map(toHex) } }
}

function decode(stored: unknown): Seen {
  const { size, root, edge } = stored as { size: number; root: string; edge: { size: number; roots: string[] } }
  return { size, root: fromHex(root), edge: { size: edge.size, roots: edge.roots.map(fromHex) } }
}
