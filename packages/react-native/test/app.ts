// The app of the tests: it runs in Hermes and in Node, and does what the test sends.

import { type KeyhushMap, type Options, open } from '@keyhush/react-native'

/** A command. A map is named by its number. */
export type Command =
  | readonly ['open', Options]
  | readonly [
      'call',
      map: number,
      method: 'get' | 'getText' | 'has' | 'at' | 'getMany' | 'sync' | 'close',
      ...unknown[],
    ]
  | readonly ['read', map: number, property: 'mode' | 'epoch' | 'size' | 'stats']

/** What came of it, as JSON can say it. */
export type Outcome = { readonly value?: unknown } | { readonly error: Failure }

export interface Failure {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly server?: string
}

const maps: KeyhushMap[] = []

export async function run(command: Command): Promise<Outcome> {
  try {
    return { value: shown(await done(command)) }
  } catch (thrown) {
    const { name, message, code, server } = thrown as Failure
    const { cause } = thrown as Error
    const shown = code === 'internal' ? `${message}: ${(cause as Error).stack}` : message
    return { error: { name, message: shown, ...(code && { code }), ...(server && { server }) } }
  }
}

async function done(command: Command): Promise<unknown> {
  if (command[0] === 'open') return maps.push(await open(command[1])) - 1
  const map = maps[command[1]]!
  if (command[0] === 'read') return map[command[2]]
  const [, , method, ...given] = command
  return await (map[method] as (...given: unknown[]) => Promise<unknown>).apply(map, given)
}

/** Bytes as numbers, and nothing as null. */
function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return [...value]
  if (Array.isArray(value)) return value.map(shown)
  return value ?? null
}
