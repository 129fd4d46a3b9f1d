// @keyhush/confidential/server: what the command `keyhush-confidential` does, for programs of owners and evaluators.

export { type Authorized, createEvaluator, type EvaluatorOptions } from './evaluator.js'
export { type Choices, createOwnerKey, readShare, recoverOwnerKey, reshare, type Share } from './files.js'
export { type Limits, Meter, type MeterOptions } from './meter.js'
export { type Transformed, type TransformOptions, transform } from './transform.js'
