// What a log sends to a witness, and what that replies with (c2sp.org/tlog-witness).

import { HASH_BYTES } from '@keyhush/protocol'
import {
  type Checkpoint,
  cosignature,
  cosignedBytes,
  formatNote,
  fromBase64,
  LogError,
  type Note,
  type NoteKey,
  type Path,
  parseCheckpoint,
  parseNote,
  toBase64,
} from '@keyhush/protocol/log'
import { ed25519 } from '@noble/curves/ed25519.js'

/** Most bytes of one; with the longest path it has some three thousand. */
export const MOST_SUBMISSION_BYTES = 64 * 1024

export interface Submission {
  /** entries that the witness has seen */
  readonly old: number
  /** proves that the log continues those */
  readonly path: Path
  readonly note: Note
}

export interface ReadSubmission extends Submission {
  readonly checkpoint: Checkpoint
}

export function formatSubmission({ old, path, note }: Submission): string {
  return `old ${old}\n${path.map(hash => `${toBase64(hash)}\n`).join('')}\n${formatNote(note)}`
}

/** Throws LogError. Verifies nothing. */
export function parseSubmission(text: string): ReadSubmission {
  const end = text.indexOf('\n\n')
  const [first = '', ...path] = text.slice(0, end).split('\n')
  const [, old] = /^old (0|[1-9]\d{0,14})$/.exec(first) ?? []
  if (end < 0 || old === undefined)
    throw new LogError('submission: expected a size, a path and a note, got another text')
  const note = parseNote(text.slice(end + 2))
  const checkpoint = parseCheckpoint(note.text)
  if (Number(old) > checkpoint.size)
    throw new LogError(`submission: expected an old size of at most ${checkpoint.size}, got ${old}`)
  return { old: Number(old), path: path.map(hash => fromBase64('path', hash, HASH_BYTES)), note, checkpoint }
}

/** A witness's signature of a checkpoint's text, as it replies with it. `now`: seconds since 1970. */
export function cosigned(text: string, { name, id }: NoteKey, secretKey: Uint8Array, now: number): string {
  const time = BigInt(Math.floor(now))
  const bytes = cosignature(time, ed25519.sign(cosignedBytes(text, time), secretKey))
  return formatNote({ text: '', signatures: [{ name, id, bytes }] }).slice(1)
}
