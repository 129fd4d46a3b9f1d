// Platforms on which WebAssembly does not run. Cores that are compiled already go on: the servers' run on them.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const platform = WebAssembly

// Node's own fetch() is made of WebAssembly, when it is first used.
const server = createServer((_, reply) => void reply.setHeader('connection', 'close').end()).listen(0, '127.0.0.1')
await once(server, 'listening')
await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)).text()
server.close()

/** A platform whose WebAssembly compiles nothing. */
export function compilingNothing(error: Error, validates: boolean): typeof WebAssembly {
  const Module = new Proxy(platform.Module, {
    construct() {
      throw error
    },
  })
  const changed: Record<string | symbol, unknown> = { Module, validate: () => validates }
  return new Proxy(platform, { get: (target, name) => changed[name] ?? Reflect.get(target, name) })
}

export const noSimd = compilingNothing(new WebAssembly.CompileError('invalid value type'), false)
export const forbidden = compilingNothing(new EvalError('Refused to create a WebAssembly object'), true)
