// @keyhush/confidential: lookups in lists that are private too.

export { type ConfidentialOptions, confidential, type PricedMap, type UnlockOptions } from './client/confidential.js'
export type { Authorize } from './client/evaluators.js'
