// For packages that bring a kind of proof (dataset/proof-kinds.ts).

export { BuildError, DatasetError, OperatorError } from './base/errors.js'
export { VERSION } from './base/version.js'
export { saying } from './commands/progress.js'
export type { ChangedBlocks } from './dataset/changed-blocks.js'
export { blobPath, manifestPath, proofPath } from './dataset/directory.js'
export type {
  DatasetProofs,
  Fold,
  FoldingThread,
  ProofsPackage,
  Provable,
  ProvedDatabase,
  ProvedEpoch,
  ProvingOptions,
  RowOpenings,
  RowProofs,
  StoredProofs,
} from './dataset/proof-kinds.js'
