// The journal's stored form: its head, the entries since the checkpoint, then what happened since, frame by frame.
//
// Every lookup appends two frames: itself, pending, and its effect. Each is synced before its promise resolves (S1), so only
// the last frame can be incomplete. It is dropped: its promise has not resolved. A complete frame with a wrong checksum
// makes the state unreadable. It may have been stored and shown to a server before it rotted, and a state without it
// would be an older state (S3).

import { fromHex, toHex } from '@keyhush/protocol'
import { concatenated } from '../../base/bytes.js'
import { decodeFrame, encodeFrame } from '../frames.js'
import { fromRow, toRow } from '../head.js'
import * as rules from '../rules.js'
import { StateUnreadableError } from '../store.js'

/** What the journal says. */
export interface State {
  readonly head: rules.StoredHead
  /** from the checkpoint's version up to the head's */
  readonly entries: readonly Uint8Array[]
}

/** For the first frame, which names the hint. */
const NO_HINT = new Uint8Array()

export function encodeJournal({ head, entries }: State): Uint8Array {
  const { record, version, checkpointVersion } = head
  const row = JSON.stringify(toRow(head), (_, field: unknown) =>
    field instanceof Uint8Array ? { hex: toHex(field) } : field,
  )
  return concatenated([
    encodeFrame({ kind: 'head', version, payload: new TextEncoder().encode(row) }, NO_HINT),
    ...entries.map((payload, i) =>
      encodeFrame({ kind: 'entr', version: checkpointVersion + i, payload }, record.hintId),
    ),
  ])
}

/** What a journal says, without an incomplete last frame. Throws StateUnreadableError. */
export function decodeJournal(bytes: Uint8Array): State {
  const first = decodeFrame(bytes, 0, NO_HINT)
  if (first?.frame.kind !== 'head') throw new StateUnreadableError('the stored journal has no head')
  let head = fromRow(parseRow(first.frame.payload))
  const { hintId } = head.record
  const entries: Uint8Array[] = []
  let start = first.end
  for (let version = head.checkpointVersion; version < head.version; version++) {
    const next = decodeFrame(bytes, start, hintId)
    if (next?.frame.kind !== 'entr' || next.frame.version !== version) {
      throw new StateUnreadableError('entries are missing from the stored journal')
    }
    entries.push(next.frame.payload)
    start = next.end
  }
  for (let next = decodeFrame(bytes, start, hintId); next !== undefined; next = decodeFrame(bytes, next.end, hintId)) {
    const { kind, version, payload } = next.frame
    try {
      if (kind === 'pend') head = rules.withPending(head, hintId, version, payload)
      else if (kind === 'entr') head = rules.committed(head, hintId, version, payload.length)
      else throw new StateUnreadableError(`the stored journal has a frame of kind ${kind}`)
    } catch (cause) {
      throw new StateUnreadableError('the stored journal contradicts itself', { cause })
    }
    if (kind === 'entr') entries.push(payload)
  }
  return { head, entries }
}

function parseRow(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(payload), (_, field: { hex?: unknown } | null) =>
      typeof field?.hex === 'string' ? fromHex(field.hex) : field,
    )
  } catch (cause) {
    throw new StateUnreadableError('the stored head is torn', { cause })
  }
}
