// Signed notes (c2sp.org/signed-note), with Ed25519 alone: of a log, and of witnesses, which sign when they saw it
// (c2sp.org/tlog-cosignature).

import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, createView, hexToBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { fromBase64, toBase64 } from './base64.js'
import { refuse } from './errors.js'

/** The types of keys, as their first byte names them. */
export const LOG_KEY = 0x01
export const WITNESS_KEY = 0x04
const TYPES: Readonly<Record<number, string>> = {
  [LOG_KEY]: "a log's key (type 1, Ed25519)",
  [WITNESS_KEY]: "a witness's key (type 4, Ed25519)",
}

const ID_BYTES = 4
const KEY_BYTES = 32
const SIGNATURE_BYTES = 64
/** of a witness's signature: the time before it */
const TIME_BYTES = 8

/** Who may have signed a note. */
export interface NoteKey {
  readonly name: string
  /** 8 hex digits, of name, type and key */
  readonly id: string
  readonly type: number
  readonly publicKey: Uint8Array
}

export interface NoteSignature {
  readonly name: string
  readonly id: string
  /** without the id */
  readonly bytes: Uint8Array
}

export interface Note {
  /** what is signed, with its last line end */
  readonly text: string
  readonly signatures: readonly NoteSignature[]
}

/** May give a promise, as platforms do. */
export type Verify = (signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array) => boolean | Promise<boolean>

/** What the names of keys are made of: no space and no plus. */
export const KEY_NAME = /^[^\s+\p{Z}\p{Cc}]+$/u

export function noteKey(name: string, type: number, publicKey: Uint8Array): NoteKey {
  const hash = sha256(Uint8Array.of(...utf8ToBytes(`${name}\n`), type, ...publicKey))
  return { name, id: bytesToHex(hash.subarray(0, ID_BYTES)), type, publicKey }
}

/** `name+id+key`, as programs for witnesses print it. */
export function encodeNoteKey({ name, id, type, publicKey }: NoteKey): string {
  return `${name}+${id}+${toBase64(Uint8Array.of(type, ...publicKey))}`
}

/** Reads a key of one type. Throws LogError. */
export function parseNoteKey(text: string, type: number): NoteKey {
  const [, name = '', id, key64 = ''] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(text) ?? []
  if (!KEY_NAME.test(name)) refuse('key', 'name+id+key, as its owner prints it', 'another text')
  const [first, ...bytes] = fromBase64('key', key64)
  if (first !== type) refuse('key', TYPES[type]!, first === undefined ? 'none' : `type ${first}`)
  const key = noteKey(name, type, Uint8Array.from(bytes))
  if (key.publicKey.length !== KEY_BYTES) refuse('key', `${KEY_BYTES} bytes`, key.publicKey.length)
  if (key.id !== id) refuse('key', `id ${key.id}`, id!)
  return key
}

/** Reads a note. Throws LogError. Verifies nothing. */
export function parseNote(note: string): Note {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\x00-\x09\x0b-\x1f]/.test(note)) refuse('note', 'no control characters but line ends', 'another one')
  const end = note.lastIndexOf('\n\n')
  const lines = note.slice(end + 2).split('\n')
  if (end < 0 || lines.pop() !== '') refuse('note', 'a text, an empty line, and signatures', 'another form')
  return { text: note.slice(0, end + 1), signatures: lines.map(parseSignatureLine) }
}

/** Reads lines of signatures, as witnesses reply with them. Throws LogError. */
export function parseSignatures(lines: string): readonly NoteSignature[] {
  return parseNote(`\n\n${lines}`).signatures
}

function parseSignatureLine(line: string): NoteSignature {
  const [, name = '', base64 = ''] = /^— (\S+) (\S+)$/.exec(line) ?? []
  if (!KEY_NAME.test(name)) refuse('note', 'a signature in each line at its end', 'another text')
  const bytes = fromBase64('signature of a note', base64)
  if (bytes.length <= ID_BYTES) refuse('signature of a note', 'an id and a signature', `${bytes.length} bytes`)
  return { name, id: bytesToHex(bytes.subarray(0, ID_BYTES)), bytes: bytes.subarray(ID_BYTES) }
}

export function formatNote({ text, signatures }: Note): string {
  const lines = signatures.map(
    ({ name, id, bytes }) => `— ${name} ${toBase64(Uint8Array.of(...hexToBytes(id), ...bytes))}\n`,
  )
  return `${text}\n${lines.join('')}`
}

/** The bytes that a log signs. */
export function signedNoteBytes(text: string): Uint8Array {
  return utf8ToBytes(text)
}

/** The bytes that a witness signs, at a time in seconds since 1970. */
export function cosignedBytes(text: string, time: bigint): Uint8Array {
  return utf8ToBytes(`cosignature/v1\ntime ${time}\n${text}`)
}

/** A witness's signature as it stands in a note. */
export function cosignature(time: bigint, signature: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(TIME_BYTES + SIGNATURE_BYTES)
  createView(bytes).setBigUint64(0, time)
  bytes.set(signature, TIME_BYTES)
  return bytes
}

/**
 * Those of `keys` that have signed the note. Other signatures are ignored. Throws LogError if one of a known key is wrong, or if a key has
 * two: one that signs twice counts once.
 */
export async function signersOf(note: Note, keys: readonly NoteKey[], verify: Verify): Promise<ReadonlySet<NoteKey>> {
  const signers = new Set<NoteKey>()
  for (const { name, id, bytes } of note.signatures) {
    const key = keys.find(key => key.name === name && key.id === id)
    if (key === undefined) continue
    if (signers.has(key)) refuse('note', `one signature of ${name}`, 'two')
    if (!(await isSigned(note.text, bytes, key, verify))) refuse('note', `a signature of ${name}`, 'a wrong one')
    signers.add(key)
  }
  return signers
}

async function isSigned(
  text: string,
  bytes: Uint8Array,
  { type, publicKey }: NoteKey,
  verify: Verify,
): Promise<boolean> {
  if (type === LOG_KEY)
    return bytes.length === SIGNATURE_BYTES && (await verify(bytes, signedNoteBytes(text), publicKey))
  if (bytes.length !== TIME_BYTES + SIGNATURE_BYTES) return false
  const time = createView(bytes).getBigUint64(0)
  return time < 2n ** 63n && (await verify(bytes.subarray(TIME_BYTES), cosignedBytes(text, time), publicKey))
}
