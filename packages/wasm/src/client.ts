// The loader for clients, on any platform. The module is hex in a JavaScript file of its own, which is loaded when it is needed.
// So bundlers, dev servers and paths need no settings for it. Compressed, it is about as large as a separate file. An app that
// has the file elsewhere calls `useModule` first; then nothing is loaded from here.

import type { ClientCore, InstantCore, SingleCore } from './core.js'
import { Instance } from './instance.js'
import { inlined, type ModuleSource, moduleOf } from './source.js'

export type * from './core.js'
/** the part that every client has */
export type { InstantCore as Core } from './core.js'
export type { ModuleSource } from './source.js'

/** The builds for browsers. Each can do what those before it can. */
export interface Cores {
  readonly instant: InstantCore
  readonly client: ClientCore
  readonly single: SingleCore
}
export type Build = keyof Cores

type Given = () => Promise<WebAssembly.Module>

const given: Partial<Record<Build, Given>> = {}

/**
 * Sets where a build's module comes from. A realm runs one instance of each build: one that runs already stays.
 * @example
 * useModule(() => fetch('/client_bg.wasm'), 'client')
 */
export function useModule(source: ModuleSource | (() => ModuleSource), build: Build): void {
  given[build] = () => moduleOf(source)
}

/** Glue and module of each build. They are files of their own, so that bundlers leave them out of what every app loads. */
const PARTS: {
  readonly [B in Build]: { readonly instance: () => Promise<Instance<Cores[B]>>; readonly module: Given }
} = {
  instant: {
    instance: async () => (await import('./instant.js')).instance,
    module: async () => inlined(await import('../generated/inline-instant.js')),
  },
  client: {
    async instance() {
      const [glue, { clientCore }] = await Promise.all([import('../generated/client.js'), import('./client-core.js')])
      return new Instance<ClientCore>(glue, memory => clientCore(glue, memory))
    },
    module: async () => inlined(await import('../generated/inline.js')),
  },
  single: {
    async instance() {
      const parts = [import('../generated/single.js'), import('./client-core.js'), import('./single-core.js')] as const
      const [glue, { clientCore }, { singleHalf }] = await Promise.all(parts)
      // The builds have the same classes. TypeScript distinguishes them by their private parts only.
      const own = glue as unknown as Parameters<typeof clientCore>[0]
      return new Instance<SingleCore>(glue, memory => ({ ...clientCore(own, memory), ...singleHalf(glue) }))
    },
    module: async () => inlined(await import('../generated/inline-single.js')),
  },
}

/** For each build that was asked for: a function that returns its running core. */
const begun: { [B in Build]?: Promise<() => Promise<Cores[B]>> } = {}

/**
 * The running core of a build; instantiates it if it does not run. Instead of `instant` it returns `client` if that runs
 * already, or if the app has set its module.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadCore('instant')
 */
export async function loadCore<B extends Build = 'client'>(build: B = 'client' as B): Promise<Cores[B]> {
  const instead = build === 'instant' && (given.client ?? begun.client) !== undefined ? 'client' : build
  const load = await beginning(instead as B)
  return await load()
}

/** Loads glue and module at once. If it fails, the next call tries again. */
function beginning<B extends Build>(build: B): Promise<() => Promise<Cores[B]>> {
  const known = begun[build]
  if (known !== undefined) return known
  const source = () => (given[build] ?? PARTS[build].module)()
  let first: Promise<WebAssembly.Module> | undefined = source()
  first.catch(() => {}) // every caller gets the error
  const loads = PARTS[build].instance().then(instance => () => {
    const module = first
    first = undefined
    return instance.load(() => module ?? source())
  })
  begun[build] = loads as (typeof begun)[B]
  loads.catch(() => {
    delete begun[build]
  })
  return loads
}
