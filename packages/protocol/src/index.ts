// The wire of Keyhush (docs/protocol.md): what a client and a server must agree on, and nothing either does with it.
// No platform types, no dependencies; the TypeBox schemas are a separate entry.

export {
  BATCH_ENCODINGS,
  BATCH_HEADER_BYTES,
  type Batch,
  type BatchEncoding,
  decodeBatch,
  encodeBatch,
} from './batch.js'
export {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  type BatchUse,
  encodeBatchSignature,
  parseBatchSignature,
  type SignedBatch,
  signedBatchBytes,
} from './batch-signature.js'
export { equalBytes, fromHex, isZero, toHex } from './bytes.js'
export { CONFIDENTIAL_NAME, confidentialId, mayHave } from './confidential.js'
export * from './constants.js'
export { mayBePublicKey, mayBeSignature } from './ed25519.js'
export {
  DATABASE_PATH,
  DATABASES_NAMED,
  ERROR_CODES,
  type ErrorCode,
  type ErrorReply,
  parseErrorReply,
} from './error-reply.js'
export { WireError, type WireErrorCode } from './errors.js'
export { type EpochEvent, EVENT_BYTES, encodeEvent, type NewestEvent, parseEvent } from './event.js'
export {
  decodeFenceReply,
  decodeFenceRequest,
  encodeFenceReply,
  encodeFenceRequest,
  FENCE_REPLY_BYTES,
  FENCE_REQUEST_BYTES,
  type FenceClaim,
  type FenceKind,
  type FenceRequest,
  type FenceVerdict,
} from './fence.js'
export * from './geometry.js'
export {
  type EpochInfo,
  type EpochStatus,
  type Info,
  LONGEST_PROOF_BYTES,
  type PostedSignature,
  parseEpochStatus,
  parseInfo,
  parsePostedSignature,
  type SignatureInfo,
  signedBytes,
  signedProofBytes,
} from './info.js'
export {
  decodeInstantAnswer,
  decodeInstantQuery,
  encodeInstantAnswer,
  encodeInstantQuery,
  encodePartQuery,
  hasInstant,
  INSTANT_PATH,
  type InstantOf,
  type InstantQuery,
  instantCommitments,
  instantLayout,
  MAX_INSTANT_BYTES,
  type Sharing,
  TWO_SERVERS,
} from './instant.js'
export {
  contentHash,
  decodeManifest,
  encodeManifest,
  LONGEST_MANIFEST_BYTES,
  MANIFEST_HEADER_BYTES,
  MANIFEST_POINTPROOFS_BYTES,
  type Manifest,
  type OneServerFields,
  type PointproofsFields,
  shardsField,
} from './manifest.js'
export {
  claimedCount,
  decodeAnswer,
  decodeClaimedQuery,
  decodeQuery,
  encodeAnswer,
  encodeAnswerTo,
  encodeQuery,
  type MessageHeader,
  proofsIn,
  type Query,
  splitVerdict,
  withClaim,
  withVerdict,
} from './message.js'
export {
  baseOf,
  decodeOneServerAnswer,
  decodeOneServerQuery,
  encodeOneServerAnswer,
  encodeOneServerQuery,
  hasOneServer,
  MAX_ONE_SERVER_BYTES,
  ONE_SERVER_PATH,
  type OneServerQuery,
  ownBase,
} from './one-server.js'
export { decodeParities, encodeParityQuery, parityAnswerBytes } from './parities.js'
export { encodePatch, type PatchEntry, patchEntries } from './patch.js'
export {
  builtFor,
  type EntryProofs,
  hasRows,
  isCommitted,
  isPackaged,
  PACKAGED,
  type PackagedProofs,
  PROOF_KINDS,
  PROOFS,
  type Proofs,
  proofsOf,
  suiteOf,
} from './proofs.js'
export { decodeRecord, encodeRecord, type RecordShape, type StoredRecord, writeRecord } from './record.js'
export { grownRowLists, partitionRows, rowOfBlock, rowPlace, updatedRowLists } from './row-lists.js'
export { MARK_PASSES, slotMark } from './slot-mark.js'
export {
  longestUpdateList,
  type UpdateEntry,
  type UpdateKind,
  updateEntries,
} from './update-list.js'
