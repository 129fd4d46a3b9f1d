// @keyhush/client: a private map. See README.md for a quick start, docs/threat-model.md for what is protected.

export type { Mode } from '@keyhush/wasm/client'
export type { Condemnation, StorageKind } from './base/events.js'
export type { OnProgress, Progress } from './base/progress.js'
export * from './common.js'
export { type Estimate, type EstimateOptions, estimate } from './estimate.js'
export { type DiscardOptions, discardState, open } from './open.js'
export type { OpenOptions } from './options.js'
export type { AnswerVerifier, FetchBlob, LoadProofs, ProofsPackage, VerifierContext } from './scheme/packaged.js'
export type { ProofsPreference, SchemeCosts } from './scheme/scheme.js'
export type { RollbackPreference } from './servers/fence.js'
export type { Download, DownloadOffer, Network } from './session/consent.js'
export type { Identity, OpenDurableStore, StoragePreference } from './store/storage.js'
