// @keyhush/protocol/log: a publisher's log of epochs, and the witnesses who have seen it (docs/protocol/witnesses.md).

export { fromBase64, toBase64 } from './base64.js'
export { LogError } from './errors.js'
export {
  cosignature,
  cosignedBytes,
  encodeNoteKey,
  formatNote,
  KEY_NAME,
  LOG_KEY,
  type Note,
  type NoteKey,
  type NoteSignature,
  noteKey,
  parseNote,
  parseNoteKey,
  parseSignatures,
  signedNoteBytes,
  signersOf,
  type Verify,
  WITNESS_KEY,
} from './note.js'
export { isMet, isSplit, type Policy, parsePolicy, type Quorum, type Witness } from './policy.js'
export {
  type Checkpoint,
  checkLogProof,
  checkpointText,
  formatLogProof,
  type LoggedEpoch,
  type LogProof,
  logEntry,
  logOrigin,
  parseCheckpoint,
  parseLogProof,
} from './proof.js'
export {
  consistencyPath,
  continues,
  EMPTY_EDGE,
  grown,
  inclusionPath,
  leafHash,
  nodeHash,
  type Path,
  type RightEdge,
  rootOf,
  rootOfEdge,
  rootThrough,
} from './tree.js'
