// All that instant.test.ts tests, where WebAssembly has no SIMD: the core in JavaScript answers.

import { afterEach, beforeEach, vi } from 'vitest'
import { noSimd } from './support/no-webassembly.js'

beforeEach(() => void vi.stubGlobal('WebAssembly', noSimd))
afterEach(() => void vi.unstubAllGlobals())

const anew = './instant.test.ts?without-simd' // this process may have loaded the file before
await import(/* @vite-ignore */ anew)
