// @keyhush/client/instant: `open()` in mode `instant` alone, for apps that look up now and then and keep nothing. It is three files after
// bundling, and more for platforms without Ed25519, and to watch keys.

import { loadInstantCore, useInstantModule } from '@keyhush/wasm/instant'
import { checkInstantOptions, type InstantWithOptions, openInstantWith } from './instant-with.js'
import type { KeyhushMap } from './map.js'
import type { OptionOf } from './option-table.js'
import type { OpenOptions } from './options.js'
import type { Environment } from './platform/environment.js'

/** The options of `open()` that mode `instant` has. `wasm` is `@keyhush/wasm/instant_bg.wasm`. */
export interface InstantOptions
  extends InstantWithOptions,
    Pick<OpenOptions, Exclude<OptionOf<'instant'>, OptionOf<'native'>>> {}

const loadCore = loadInstantCore as Environment['loadCore'] // asked for no other build

/**
 * Opens a map in mode `instant`. It downloads nothing and keeps nothing. For each lookup all servers read their whole database.
 * @throws {UsageError} for wrong options, before any traffic
 * @throws {KeyhushError} by class or `code`: docs/common-errors.md has each, and what to do
 * @example
 * const map = await open({ servers: ['https://a.example', 'https://b.example'] })
 * await map.getText('otter')
 */
export async function open(options: InstantOptions): Promise<KeyhushMap> {
  checkInstantOptions('instant', options)
  const { wasm, ...others } = options
  if (wasm !== undefined) useInstantModule(wasm)
  return await openInstantWith({ loadCore }, others)
}

export * from './common.js'
