// @keyhush/client/common: what all entries export beside their `open()`: the errors, and the types of what a map takes and gives.

export * from './base/errors.js'
export type { MapEvent, OnEvent } from './base/events.js'
export type { Key, Normalize } from './lookup/keys.js'
export type { Found, Value } from './lookup/question.js'
export type { CallOptions, KeyhushMap, ManyOptions, PrepareOptions, ResetOptions, WatchOptions } from './map.js'
export type { Fetch } from './platform/environment.js'
export type { Incident, Stats, Traffic } from './servers/stats.js'
export type { Change, OnChange, Watch } from './watching/watch.js'
