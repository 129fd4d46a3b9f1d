// Asks witnesses for their signatures of a log's checkpoint (c2sp.org/tlog-witness).

import {
  consistencyPath,
  LogError,
  type Note,
  type NoteSignature,
  type Path,
  parseSignatures,
  signersOf,
  type Witness,
} from '@keyhush/protocol/log'
import { verifies } from '../base/ed25519.js'
import { fetched } from './server.js'
import { formatSubmission } from './submission.js'

const TIMEOUT_MILLISECONDS = 10_000
/** Most bytes of a reply; a signature has some hundred. */
const MOST_BYTES = 16 * 1024

/** What a witness has replied. `contradicts`: it has seen another log, or a longer one. */
export type WitnessReply =
  | { readonly signature: NoteSignature }
  | { readonly reason: string; readonly contradicts?: true }

interface OwnCheckpoint {
  /** the log's checkpoint, signed by the log alone */
  readonly note: Note
  readonly leaves: Path
  /** entries that the witness may have seen */
  readonly old: number
}

/** Asks one for a signature of a checkpoint. Never rejects. */
export async function askWitness(
  witness: Witness,
  { note, leaves, old }: OwnCheckpoint,
  fetch = globalThis.fetch,
): Promise<WitnessReply> {
  if (witness.url === undefined) return { reason: 'expected its URL in the policy, got none' }
  let reply = await ask(old)
  if (typeof reply === 'number') reply = await ask(reply)
  return typeof reply === 'number' ? { reason: 'expected a signature, got 409 again: another run of yours?' } : reply

  /** The number of entries that it has seen: the request has to begin there. */
  async function ask(old: number): Promise<WitnessReply | number> {
    const path = old === 0 ? [] : consistencyPath(leaves, old)
    const body = formatSubmission({ old, path, note })
    let [status, text] = [0, '']
    try {
      const url = `${witness.url}/add-checkpoint`
      const { response, bytes } = await fetched(url, { method: 'POST', body }, MOST_BYTES, TIMEOUT_MILLISECONDS, fetch)
      status = response.status
      text = Buffer.from(bytes).toString() // of a longer one the beginning, which is no signature
    } catch (error) {
      const { cause, message } = error as Error
      return { reason: `expected a reply, got none (${cause instanceof Error ? cause.message : message})` }
    }
    if (status === 200) return await signatureIn(text)
    if (status === 422) return { reason: 'it has seen another log of this name', contradicts: true }
    if (status === 503)
      return { reason: 'expected a signature, got 503: it is busy, or has not checked this epoch yet' }
    if (status !== 409) return { reason: `expected a signature, got status ${status}` }
    const size = /^\d{1,15}\n?$/.test(text) ? Number(text) : Number.NaN
    if (Number.isNaN(size)) return { reason: 'expected a size after 409, got another text' }
    if (size > leaves.length)
      return { reason: `it has seen ${size} entries, and this log has ${leaves.length}`, contradicts: true }
    return size
  }

  async function signatureIn(text: string): Promise<WitnessReply> {
    const { name, key } = witness
    try {
      const signatures = parseSignatures(text).filter(each => each.name === key.name && each.id === key.id)
      const signers = await signersOf({ text: note.text, signatures }, [key], verifies)
      if (signers.has(key)) return { signature: signatures[0]! }
      return { reason: `expected a signature of the key that the policy names ${name}, got none` }
    } catch (error) {
      if (error instanceof LogError) return { reason: error.message }
      throw error
    }
  }
}
