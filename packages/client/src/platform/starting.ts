// Starts the WebAssembly modules, and says why if that fails. Instant lookups and small copies do without, in JavaScript.

import type { Build, Core, Cores } from '@keyhush/wasm/client'
import { UnsupportedError, type UnsupportedReason } from '../base/errors.js'
import type { OnEvent } from '../base/events.js'
import type { Environment } from './environment.js'
import { loadPart, NOT_LOADED } from './parts.js'

/** The running core. To start it is a task by itself. Throws UnsupportedError. */
export async function startCore<B extends Build>(
  { loadCore, pause }: Pick<Environment, 'loadCore' | 'pause'>,
  build: B,
): Promise<Cores[B]> {
  const core = await started(() => loadCore(build))
  await pause()
  return core
}

/** The same; or where WebAssembly with SIMD is missing, forbidden or has no memory, what `script` loads: a core in JavaScript. */
export async function startEither(
  environment: Pick<Environment, 'loadCore' | 'pause'>,
  build: Build,
  script: () => Promise<Core>,
  announce: OnEvent,
): Promise<Core> {
  try {
    if (hasModules()) return await startCore(environment, build)
  } catch (error) {
    if ((error as UnsupportedError).reason === 'module') throw error
    announce({ type: 'without-webassembly' })
  }
  return await loadPart(script)
}

/** For instant lookups. The core in JavaScript is a file of its own for the few that need it. */
export function startInstant(environment: Pick<Environment, 'loadCore' | 'pause'>, announce: OnEvent): Promise<Core> {
  return startEither(environment, 'instant', async () => (await import('@keyhush/wasm/script')).scriptCore, announce)
}

/** Asked before a module is downloaded. (A policy shows only when it is compiled.) */
function hasModules(): boolean {
  return typeof WebAssembly === 'object' && WebAssembly.validate(SIMD)
}

/** Starts a package that the app has passed in. Throws UnsupportedError. */
export function startPackage<T>(load: () => Promise<T>): Promise<T> {
  return started(load)
}

async function started<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const reason = reasonOf(cause)
    throw new UnsupportedError(reason, MESSAGES[reason], { cause, retryable: reason === 'module' })
  }
}

function reasonOf(cause: unknown): keyof typeof MESSAGES {
  if (!hasModules()) return 'webassembly'
  if (cause instanceof RangeError) return 'memory'
  // The module is valid, so a policy refuses it. Engines differ in which of the two errors they throw.
  if (cause instanceof WebAssembly.CompileError || cause instanceof EvalError) return 'policy'
  return 'module'
}

const MESSAGES = {
  webassembly: "expected WebAssembly with SIMD, got none; update the platform, or use 'instant' with two servers",
  memory:
    "expected memory for the WebAssembly core, got none; close other pages, in Node raise `ulimit -v`, or use 'instant' with two servers",
  policy:
    "expected to compile WebAssembly, but the page's content security policy, or a platform such as Cloudflare Workers, forbids it; add 'wasm-unsafe-eval' to the page's script-src, or use 'instant' with two servers",
  module: `${NOT_LOADED}, or pass open({ wasm })`,
} as const satisfies Partial<Record<UnsupportedReason, string>>

/** The smallest module with an instruction of SIMD. */
const SIMD = Uint8Array.of(
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic, version
  ...[1, 5, 1, 0x60, 0, 1, 0x7b], // types: one function () -> v128
  ...[3, 2, 1, 0], // functions: one, of that type
  ...[10, 10, 1, 8, 0, 0x41, 0, 0xfd, 15, 0xfd, 98, 11], // code: i8x16.splat of 0, then i8x16.popcnt
)
