// @keyhush/client/instant: `open()` in mode `instant` alone, for apps that look up now and then and keep nothing. It is two files after
// bundling, and a third for platforms without Ed25519.

import { loadInstantCore, useInstantModule } from '@keyhush/wasm/instant'
import { checkNames, checkOptions } from './base/boundary.js'
import { StorageError, UsageError } from './base/errors.js'
import type { KeyhushMap } from './map.js'
import { checkOpenOptions, type OpenOptions } from './options.js'
import { type Environment, environmentWith } from './platform/environment.js'
import { KNOWN } from './scheme/known.js'
import { openBy } from './sharing.js'

type Shared =
  | 'publisherKey'
  | 'atLeast'
  | 'signal'
  | 'timeoutMs'
  | 'onEvent'
  | 'normalize'
  | 'push'
  | 'fetch'
  | 'wasm'
  | 'development'

/** The options of `open()` that mode `instant` has. `wasm` is `@keyhush/wasm/instant_bg.wasm`. */
export interface InstantOptions extends Pick<OpenOptions, Shared> {
  /** Base URLs of two to eight servers on different hosts, in any order. Lookups stay private unless all operators collude. */
  readonly servers: readonly (string | URL)[]
}

const OPTIONS: Record<keyof InstantOptions, true> = {
  servers: true,
  publisherKey: true,
  atLeast: true,
  signal: true,
  timeoutMs: true,
  onEvent: true,
  normalize: true,
  push: true,
  fetch: true,
  wasm: true,
  development: true,
}

const loadCore = loadInstantCore as Environment['loadCore'] // asked for no other build
const openStore = () =>
  Promise.reject(new StorageError('expected no store to be opened in mode instant; please report it'))
const loadKeeping = () => Promise.reject(new Error('nothing is kept in mode instant'))

/**
 * Opens a map in mode `instant`. It downloads nothing and keeps nothing. For each lookup all servers read their whole database.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each, and what to do
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: InstantOptions): Promise<KeyhushMap> {
  checkOptions('open', options)
  checkNames('open', options, Object.keys(OPTIONS))
  checkOpenOptions(options)
  if (options.servers?.length === 1) {
    const instead = "for one server import open from '@keyhush/client'"
    throw new UsageError(`servers: expected two or more, for lookups that keep nothing, got one; ${instead}`)
  }
  const { fetch, wasm, ...others } = options
  if (wasm !== undefined) useInstantModule(wasm)
  const environment = environmentWith({ openStore, loadCore }, fetch)
  return await openBy(environment, { ...others, mode: 'instant', storage: 'memory' }, { known: KNOWN, loadKeeping })
}

export * from './base/errors.js'
export type { MapEvent, OnEvent } from './base/events.js'
export type { Key, Normalize } from './lookup/keys.js'
export type { Found, Value } from './lookup/question.js'
export type { CallOptions, KeyhushMap, ManyOptions, PrepareOptions, ResetOptions } from './map.js'
export type { Fetch } from './platform/environment.js'
export type { Incident, Stats, Traffic } from './servers/stats.js'
