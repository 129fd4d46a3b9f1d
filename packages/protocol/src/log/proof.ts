// The proof that a log has an epoch, and that witnesses have seen the log (docs/protocol/witnesses.md): c2sp.org/tlog-proof,
// c2sp.org/tlog-checkpoint, and the entry that an epoch has in its log.

import { bytesToHex, createView, utf8ToBytes } from '@noble/hashes/utils.js'
import { fromBase64, toBase64 } from './base64.js'
import { equalBytes, refuse } from './errors.js'
import { type Note, parseNote, signersOf, type Verify } from './note.js'
import { isMet, type Policy } from './policy.js'
import { leafHash, type Path, rootThrough } from './tree.js'

/** An epoch, as its log has it. */
export interface LoggedEpoch {
  /** 16 bytes */
  readonly databaseId: Uint8Array
  readonly epoch: number
  /** 32 bytes */
  readonly manifestHash: Uint8Array
}

export interface Checkpoint {
  readonly origin: string
  /** entries */
  readonly size: number
  readonly root: Uint8Array
}

export interface LogProof {
  readonly index: number
  readonly path: Path
  readonly note: Note
  readonly checkpoint: Checkpoint
}

const HEADER = 'c2sp.org/tlog-proof@v1'
const ENTRY_BYTES = 64
const HASH_BYTES = 32
/** RFC 6962 has no longer paths, and c2sp.org/tlog-witness takes none. */
const LONGEST_PATH = 63

/** The bytes of an epoch's entry, at index epoch − 1. */
export function logEntry({ databaseId, epoch, manifestHash }: LoggedEpoch): Uint8Array {
  const bytes = new Uint8Array(ENTRY_BYTES)
  bytes.set(utf8ToBytes('PIRL'))
  createView(bytes).setUint16(4, 1, true)
  bytes.set(databaseId, 8)
  createView(bytes).setUint32(24, epoch, true)
  bytes.set(manifestHash, 32)
  return bytes
}

/** The name of a database's log. */
export function logOrigin(name: string, databaseId: Uint8Array): string {
  return `${name}/${bytesToHex(databaseId)}`
}

/** The text of a checkpoint's note. */
export function checkpointText({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${toBase64(root)}\n`
}

/** Reads it. Throws LogError, also for lines behind the root: no log of ours has any. */
export function parseCheckpoint(text: string): Checkpoint {
  const [origin = '', size = '', root = '', last, ...more] = text.split('\n')
  if (origin === '' || last !== '' || more.length > 0) refuse('checkpoint', 'origin, size and root', 'another text')
  return { origin, size: numberIn('checkpoint size', size), root: fromBase64('checkpoint root', root, HASH_BYTES) }
}

/** `note`: a signed checkpoint. */
export function formatLogProof(index: number, path: Path, note: string): string {
  return `${HEADER}\nindex ${index}\n${path.map(hash => `${toBase64(hash)}\n`).join('')}\n${note}`
}

/** Reads a proof. Throws LogError. Verifies nothing. */
export function parseLogProof(text: string): LogProof {
  const end = text.indexOf('\n\n')
  const [header, index = '', ...path] = text.slice(0, end).split('\n')
  if (end < 0 || header !== HEADER || !index.startsWith('index '))
    refuse('proof', `${HEADER} and an index`, 'another text')
  if (path.length > LONGEST_PATH) refuse('proof', `at most ${LONGEST_PATH} hashes`, path.length)
  const note = parseNote(text.slice(end + 2))
  return {
    index: numberIn('proof index', index.slice('index '.length)),
    path: path.map(hash => fromBase64('proof', hash, HASH_BYTES)),
    note,
    checkpoint: parseCheckpoint(note.text),
  }
}

/** Throws LogError unless the policy's log has this epoch at its place, and a quorum of witnesses has seen that log. */
export async function checkLogProof(text: string, logged: LoggedEpoch, policy: Policy, verify: Verify): Promise<void> {
  const { index, path, note, checkpoint } = parseLogProof(text)
  const { log, witnesses, quorum } = policy
  if (index !== logged.epoch - 1) refuse('proof index', logged.epoch - 1, index)
  if (checkpoint.origin !== log.name) refuse('proof', `a checkpoint of ${log.name}`, 'one of another log')
  const signers = await signersOf(note, [log, ...witnesses.map(({ key }) => key)], verify)
  if (!signers.has(log)) refuse('proof', `a checkpoint that ${log.name} has signed`, 'one that it has not')
  if (!isMet(quorum, signers)) {
    const names = witnesses.filter(({ key }) => signers.has(key)).map(({ name }) => name)
    refuse('proof', 'a quorum of witnesses', names.length === 0 ? 'none of them' : names.join(', '))
  }
  const root =
    index < checkpoint.size ? rootThrough(leafHash(logEntry(logged)), index, checkpoint.size, path) : undefined
  if (root === undefined || !equalBytes(root, checkpoint.root))
    refuse('proof', 'this epoch in the log', 'another entry')
}

/** Decimal digits alone, without a leading zero. */
function numberIn(field: string, digits: string): number {
  if (!/^(0|[1-9]\d{0,14})$/.test(digits)) refuse(field, 'a number', 'another text')
  return Number(digits)
}
