// For packages that bring a kind of proof (dataset/proof-kinds.ts).

export { BuildError, DatasetError, OperatorError } from './base/errors.js'
export { VERSION } from './base/version.js'
export { saying } from './commands/progress.js'
export { blobPath, manifestPath, proofPath } from './dataset/directory.js'
export type {
  ChangedRows,
  DatasetProofs,
  Dated,
  Folding,
  ProofsPackage,
  Provable,
  ProvedDatabase,
  ProvedEpoch,
  ProvingOptions,
  RowProofs,
  StoredProofs,
  Unproved,
} from './dataset/proof-kinds.js'
export { recordBytesView } from './dataset/view.js'
