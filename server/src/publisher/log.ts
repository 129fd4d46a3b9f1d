// A publisher's log (docs/protocol/witnesses.md): a folder with its key, the policy with its witnesses, and `public` for a static host.
// Witnesses sign one tree of each size, so the folder must never go back: what it has signed it continues, or it stops.

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { equalBytes } from '@keyhush/protocol'
import {
  checkpointText,
  encodeNoteKey,
  formatLogProof,
  formatNote,
  inclusionPath,
  isMet,
  KEY_NAME,
  LOG_KEY,
  LogError,
  type LoggedEpoch,
  leafHash,
  logEntry,
  logOrigin,
  type Note,
  type NoteKey,
  noteKey,
  type Path,
  type Policy,
  parseCheckpoint,
  parseNote,
  parsePolicy,
  rootOf,
  signedNoteBytes,
  signersOf,
} from '@keyhush/protocol/log'
import { ed25519 } from '@noble/curves/ed25519.js'
import { verifies } from '../base/ed25519.js'
import { PublishError } from '../base/errors.js'
import { createKeyFile, type KeyPair, readKeyFile } from './files.js'
import { Tiles } from './tiles.js'
import { askWitness } from './witnesses.js'

const [KEY, POLICY, PUBLIC] = ['key', 'policy', 'public']
const UNKNOWN = new Uint8Array()

export class PublisherLog {
  readonly #folder: string
  readonly #policy: Policy
  readonly #key: KeyPair
  readonly #tiles: Tiles
  readonly #unlock: () => void
  #leaves: Path
  /** the checkpoint of these leaves, and who has signed it */
  #note: Note
  #signers: ReadonlySet<NoteKey>
  /** why witnesses have not signed, as they said last */
  #reasons: readonly string[] = []
  /** entries of the checkpoint that they were asked for last */
  #asked: number | undefined

  private constructor(folder: string, { policy, key, tiles, leaves, note, signers }: LogFolder, unlock: () => void) {
    this.#folder = folder
    this.#policy = policy
    this.#key = key
    this.#tiles = tiles
    this.#leaves = leaves
    this.#note = note
    this.#signers = signers
    this.#unlock = unlock
  }

  /**
   * Makes the folder of a new log, without entries. Resolves to the log's line of a policy.
   * @throws {PublishError} if the folder exists
   * @example
   * await PublisherLog.create('log', 'example.com/keys', databaseId) // 'log example.com/keys/5f…+1c…+AR…'
   */
  static async create(folder: string, name: string, databaseId: Uint8Array): Promise<string> {
    if (!isOwnName(name) || name.endsWith('/')) {
      throw new PublishError(
        `${name}: expected a name as example.com/keys, without scheme, spaces and plus signs, got another; give one that is yours for ever`,
      )
    }
    await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      throw new PublishError(`${folder}: it exists already, and a log is never overwritten; choose another name`)
    })
    const key = await createKeyFile(join(folder, KEY))
    const line = `log ${encodeNoteKey(noteKey(logOrigin(name, databaseId), LOG_KEY, key.publicKey))}`
    await writeFile(join(folder, POLICY), `${line}\n${TEMPLATE}`)
    return line
  }

  /**
   * Opens a log's folder, for one process at a time.
   * @throws {PublishError} for a policy without a quorum of witnesses, and for a folder that is not as it was left
   * @example
   * const log = await PublisherLog.open('log')
   */
  static async open(folder: string): Promise<PublisherLog> {
    const text = await readFile(join(folder, POLICY), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      throw new PublishError(`${folder}: expected a log's folder, got another; \`keyhush log\` makes one`)
    })
    const { lockStore } = await import('../storage/lock.js') // not for commands without a log: it needs a native package
    const unlock = lockStore(folder)
    try {
      return new PublisherLog(folder, await read(folder, text), unlock)
    } catch (error) {
      unlock()
      if (!(error instanceof LogError)) throw error
      throw new PublishError(`${folder}: ${error.message}; see docs/operations/witnesses.md`)
    }
  }

  /** Entries. */
  get size(): number {
    return this.#leaves.length
  }

  /** Throws PublishError unless the log has this epoch at its end, or ends before it. */
  check(logged: LoggedEpoch): void {
    const { epoch } = logged
    const { name } = this.#policy.log
    if (name !== logOrigin(name.slice(0, name.lastIndexOf('/')), logged.databaseId)) {
      throw new PublishError(`${this.#folder}: expected the log of this database, got that of ${name}; name its own`)
    }
    if (this.size > epoch) {
      const came = `got epoch ${epoch}: they have gone back`
      throw new PublishError(
        `the servers: expected epoch ${this.size}, which the log (${this.#folder}) has, ${came}. Nothing was signed. Ask all operators ` +
          'what they restored',
        4,
      )
    }
    if (this.size < epoch || equalBytes(this.#leaves[epoch - 1]!, leafHash(logEntry(logged)))) return
    throw new PublishError(
      `epoch ${epoch}: expected the manifest that the log (${this.#folder}) has, got another: both would be signed. Nothing was signed. Find ` +
        'out where it comes from',
      4,
    )
  }

  /** Asks all witnesses for signatures of the last checkpoint, once. Throws PublishError if one has seen more than this log, or another. */
  async ask(fetch?: typeof globalThis.fetch): Promise<void> {
    if (this.#asked === this.size) return
    this.#asked = this.size
    const { log, witnesses } = this.#policy
    const signatures = this.#note.signatures.filter(({ name, id }) => name === log.name && id === log.id)
    const asked = { text: this.#note.text, signatures }
    const replies = await Promise.all(
      witnesses.map(witness => {
        const old = this.#signers.has(witness.key) ? this.size : Math.max(0, this.size - 1) // most have seen all but the last entry
        return askWitness(witness, { note: asked, leaves: this.#leaves, old }, fetch)
      }),
    )
    const reasons = replies.map(reply => ('reason' in reply ? reply.reason : undefined))
    for (const [i, reply] of replies.entries()) {
      if (!('contradicts' in reply)) continue
      throw new PublishError(
        `witness ${witnesses[i]!.name}: ${reply.reason}. The log (${this.#folder}) has gone back, or was run in two places. No proof was ` +
          'made. Fetch its `public` from your host, and compare it with what the witnesses have',
        4,
      )
    }
    this.#reasons = witnesses.flatMap(({ name }, i) => (reasons[i] === undefined ? [] : [`${name}: ${reasons[i]}`]))
    const fresh = replies.flatMap((reply, i) =>
      'signature' in reply && !this.#signers.has(witnesses[i]!.key) ? [reply.signature] : [],
    )
    if (fresh.length > 0) await this.#keep({ ...this.#note, signatures: [...this.#note.signatures, ...fresh] })
  }

  /** Adds an epoch, and empty entries for those before it that the log does not have. Resolves when its checkpoint is on disk. */
  async append(logged: LoggedEpoch): Promise<void> {
    if (this.size >= logged.epoch) return
    const unknown = Array.from({ length: logged.epoch - 1 - this.size }, () => UNKNOWN)
    this.#leaves = await this.#tiles.append(this.#leaves, [...unknown, logEntry(logged)])
    await this.#keep(signedBy(this.#policy.log, this.#key, this.#leaves))
  }

  /** The proof of the last epoch. Throws PublishError while too few witnesses have signed. */
  proof(): string {
    const { quorum, witnesses } = this.#policy
    const last = this.size - 1
    if (isMet(quorum, this.#signers)) {
      return formatLogProof(last, inclusionPath(this.#leaves, last), formatNote(this.#note))
    }
    const signed = witnesses.filter(({ key }) => this.#signers.has(key)).length
    const what = `expected a quorum of witnesses for epoch ${this.size}, got ${signed} of ${witnesses.length}`
    throw new PublishError(
      [
        `${what}. It is published and signed, but apps with \`witnesses\` stay at the epoch before, and no further batch is sent. Run it again`,
        ...this.#reasons,
      ].join('\n  '),
      75,
    )
  }

  close(): void {
    this.#unlock()
  }

  async #keep(note: Note): Promise<void> {
    await this.#tiles.putCheckpoint(formatNote(note))
    this.#note = note
    this.#signers = await signersOf(note, keysOf(this.#policy), verifies)
  }
}

interface LogFolder {
  readonly policy: Policy
  readonly key: KeyPair
  readonly tiles: Tiles
  readonly leaves: Path
  readonly note: Note
  readonly signers: ReadonlySet<NoteKey>
}

/** Throws PublishError, LogError. */
async function read(folder: string, text: string): Promise<LogFolder> {
  const policy = parsePolicy(text)
  const key = await readKeyFile(join(folder, KEY))
  if (!equalBytes(policy.log.publicKey, key.publicKey)) {
    throw new PublishError(`${join(folder, POLICY)}: expected the key of ${join(folder, KEY)} as \`log\`, got another`)
  }
  const tiles = new Tiles(join(folder, PUBLIC))
  const signed = await tiles.checkpoint()
  if (signed === undefined) {
    const note = signedBy(policy.log, key, [])
    return { policy, key, tiles, leaves: [], note, signers: new Set([policy.log]) }
  }
  const note = parseNote(signed)
  const checkpoint = parseCheckpoint(note.text)
  const signers = await signersOf(note, keysOf(policy), verifies)
  if (!signers.has(policy.log)) {
    throw new PublishError(
      `${join(folder, PUBLIC)}: expected a checkpoint that is signed by ${join(folder, KEY)}, got another. Fetch it from your host, or ` +
        'restore the newest backup',
      4,
    )
  }
  const leaves = await tiles.read(checkpoint)
  return { policy, key, tiles, leaves, note, signers }
}

/** Whether a log or a witness may be called so: a name in notes is a URL without its scheme (c2sp.org/signed-note). */
export function isOwnName(name: string): boolean {
  return KEY_NAME.test(name) && !name.includes('://')
}

function signedBy(log: NoteKey, { secretKey }: KeyPair, leaves: Path): Note {
  const text = checkpointText({ origin: log.name, size: leaves.length, root: rootOf(leaves) })
  const bytes = ed25519.sign(signedNoteBytes(text), secretKey)
  return { text, signatures: [{ name: log.name, id: log.id, bytes }] }
}

function keysOf({ log, witnesses }: Policy): readonly NoteKey[] {
  return [log, ...witnesses.map(({ key }) => key)]
}

const TEMPLATE = `# Witnesses, and how many of them have to sign. Give apps the same text, in open({ witnesses }).
# witness A <key> https://a.example
# witness B <key> https://b.example
# witness C <key> https://c.example
# group witnesses 2 A B C
# quorum witnesses
`
