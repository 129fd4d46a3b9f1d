// The errors of the Rust core (rust-core/core/src/error.rs), with the same codes and messages.

import type { CoreError, CoreErrorCode } from '../core/base.js'

function failure(code: CoreErrorCode, message: string): CoreError {
  return Object.assign(new Error(message), { code })
}

export function layoutError(message: string): CoreError {
  return failure('layout', `layout: ${message}`)
}

export function lengthError(what: string, expected: number, actual: number): CoreError {
  return failure('length', `${what}: expected ${expected} bytes, got ${actual}`)
}

export function indexError(what: string, bound: number): CoreError {
  return failure('index', `${what} out of range: must be below ${bound}`)
}

export function directoryError(message: string): CoreError {
  return failure('directory', `directory: ${message}`)
}

export function updateError(message: string): CoreError {
  return failure('update', `update list: ${message}`)
}

export function phaseError(message: string): CoreError {
  return failure('phase', `call out of order: ${message}`)
}

export function expectLength(what: string, bytes: Uint8Array, expected: number): void {
  if (bytes.length !== expected) throw lengthError(what, expected, bytes.length)
}

export function expectBelow(what: string, number: number, bound: number): void {
  if (number >= bound) throw indexError(what, bound)
}

/** What was read; text is what is wrong with a list. */
export function expectList<T>(read: T | string): T {
  if (typeof read === 'string') throw updateError(read)
  return read
}
