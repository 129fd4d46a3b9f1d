// @pirouette/client: a private map. See README.md for a quick start, docs/threat-model.md for what is protected.

export type { Fetch } from './environment.js'
export {
  ClosedError,
  CondemnedError,
  NetworkError,
  PirouetteError,
  ProtocolError,
  RateLimitedError,
  ServersDisagreeError,
  SignatureError,
  StorageError,
  TamperedError,
  UnsupportedError,
  UsageError,
  VersionError,
} from './errors.js'
export { type Estimate, estimate } from './estimate.js'
export type { MapEvent, OnEvent, StorageKind } from './events.js'
export type { RollbackPreference } from './fence.js'
export type { Key, Normalize } from './keys.js'
export type { CallOptions, ManyOptions, PirouetteMap, ResetOptions } from './map.js'
export { type OpenOptions, open } from './open.js'
export type { OnProgress, Progress } from './progress.js'
export type { ProofsPreference } from './proofs.js'
export type { Incident, Stats, Traffic } from './stats.js'
export type { Identity, OpenDurableStore, StoragePreference } from './storage.js'
