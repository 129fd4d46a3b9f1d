// @keyhush/client: a private map. See README.md for a quick start, docs/threat-model.md for what is protected.

export type { Mode } from '@keyhush/wasm/client'
export {
  ClosedError,
  CondemnedError,
  InternalError,
  KeyhushError,
  type KeyhushErrorCode,
  NetworkError,
  ProtocolError,
  RateLimitedError,
  ServerError,
  ServersDisagreeError,
  SignatureError,
  StorageError,
  TamperedError,
  TimeoutError,
  UnsupportedError,
  type UnsupportedReason,
  UsageError,
  VersionError,
} from './base/errors.js'
export type { Condemnation, MapEvent, OnEvent, StorageKind } from './base/events.js'
export type { OnProgress, Progress } from './base/progress.js'
export { type Estimate, type EstimateOptions, estimate } from './estimate.js'
export type { Key, Normalize } from './lookup/keys.js'
export type { Found, Value } from './lookup/question.js'
export type { CallOptions, KeyhushMap, ManyOptions, PrepareOptions, ResetOptions } from './map.js'
export { type DiscardOptions, discardState, open } from './open.js'
export type { OpenOptions } from './options.js'
export type { Fetch } from './platform/environment.js'
export type { AnswerVerifier, FetchBlob, LoadProofs, ProofsPackage, VerifierContext } from './scheme/packaged.js'
export type { ProofsPreference, SchemeCosts } from './scheme/scheme.js'
export type { RollbackPreference } from './servers/fence.js'
export type { Incident, Stats, Traffic } from './servers/stats.js'
export type { Download, DownloadOffer, Network } from './session/consent.js'
export type { Identity, OpenDurableStore, StoragePreference } from './store/storage.js'
