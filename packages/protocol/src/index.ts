// The wire of Pirouette (docs/protocol.md): what a client and a server must agree on, and nothing either does with it.
// No platform types, no dependencies; the TypeBox schemas are a separate entry.

export { equalBytes, fromHex, toHex } from './bytes.js'
export * from './constants.js'
export { ERROR_CODES, type ErrorCode, type ErrorReply, parseErrorReply } from './error-reply.js'
export { WireError, type WireErrorCode } from './errors.js'
export * from './geometry.js'
export { type EpochInfo, type Info, parseInfo } from './info.js'
export { contentHash, decodeManifest, encodeManifest, type Manifest } from './manifest.js'
export {
  decodeAnswer,
  decodeQuery,
  encodeAnswer,
  encodeQuery,
  type MessageHeader,
  type Query,
} from './message.js'
export { decodeRecord, encodeRecord, type RecordShape, type StoredRecord, writeRecord } from './record.js'
