// The loader for clients, wherever they run: the module travels inside JavaScript, in a part of its own that is loaded when
// it is needed, so that no bundler, dev server or path has to know about it. Compressed, it costs about as much as a
// separate file. An app that has the file elsewhere hands it in before (`useModule`), and then nothing is loaded here.

import type { ClientCore, InstantCore, SingleCore } from './core.js'
import { discardInstance, Instance } from './instance.js'
import { inlined, type ModuleSource, moduleOf } from './source.js'

export type * from './core.js'
/** what every client has of it */
export type { InstantCore as Core } from './core.js'
export type { ModuleSource } from './source.js'

/** The builds for browsers, by what they can do: each can do what those before it can. */
export interface Cores {
  readonly instant: InstantCore
  readonly client: ClientCore
  readonly single: SingleCore
}
export type Build = keyof Cores

type Given = () => Promise<WebAssembly.Module>

const given: Partial<Record<Build, Given>> = {}

/**
 * Takes a build's module from here from now on. A realm runs one of each: if there is one already, it stays.
 * @example
 * useModule(() => fetch('/client_bg.wasm'), 'client')
 */
export function useModule(source: ModuleSource | (() => ModuleSource), build: Build): void {
  given[build] = () => moduleOf(source)
}

/** Glue and module of each build: parts of their own, which bundlers leave out of what every app loads. */
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
      // The builds' classes are alike; only their private parts tell them apart.
      const own = glue as unknown as Parameters<typeof clientCore>[0]
      return new Instance<SingleCore>(glue, memory => ({ ...clientCore(own, memory), ...singleHalf(glue) }))
    },
    module: async () => inlined(await import('../generated/inline-single.js')),
  },
}

/** What gives the running core of a build, for those that were asked for. */
const begun: { [B in Build]?: Promise<() => Promise<Cores[B]>> } = {}

/**
 * The running core of a build, instantiated if there is none. In the place of the smallest, that of hints is taken if there is
 * one already, or the app has handed its module in.
 * @throws {WebAssembly.CompileError} where there is no SIMD, or a content security policy forbids WebAssembly
 * @example
 * const core = await loadCore('instant')
 */
export async function loadCore<B extends Build = 'client'>(build: B = 'client' as B): Promise<Cores[B]> {
  const instead = build === 'instant' && (given.client ?? begun.client) !== undefined ? 'client' : build
  const load = await beginning(instead as B)
  return await load()
}

/** Glue and module come at once. What fails may succeed the next time. */
function beginning<B extends Build>(build: B): Promise<() => Promise<Cores[B]>> {
  const known = begun[build]
  if (known !== undefined) return known
  const source = () => (given[build] ?? PARTS[build].module)()
  let first: Promise<WebAssembly.Module> | undefined = source()
  first.catch(() => {}) // told to whoever loads
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

/**
 * After a trap: abandons `core`'s instance and starts another for the next that is loaded.
 * @example
 * if (error instanceof WebAssembly.RuntimeError) discardCore(core)
 */
export function discardCore(core: InstantCore): void {
  discardInstance(core)
}
