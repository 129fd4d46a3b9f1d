// The checks of what a test passes to `fakeMap()` and to its methods. A test in plain JavaScript has no types.

import { expected, oneOf, tagOf } from '../base/boundary.js'
import { KeyhushError, UsageError } from '../base/errors.js'
import type { MapEvent } from '../base/events.js'

export const MODES = ['local', 'full', 'instant', 'single'] as const

export function checkEntries(entries: unknown): void {
  if (tagOf(entries) === 'Object') return
  const came = expected("keys and values as in { otter: 'river' }", entries)
  throw new UsageError(`fakeMap: ${came}; pass Object.fromEntries(map)`)
}

export function checkNumbers({ delayMs = 0, maxQueries = 1 }: Record<'delayMs' | 'maxQueries', unknown>): void {
  if (!(typeof delayMs === 'number' && delayMs >= 0)) {
    throw new UsageError(`fakeMap: ${expected('delayMs to be a number from 0', delayMs)}`)
  }
  if (!(Number.isInteger(maxQueries) && Number(maxQueries) >= 1)) {
    throw new UsageError(`fakeMap: ${expected('maxQueries to be a whole number from 1', maxQueries)}`)
  }
}

export function checkFailure(error: unknown): void {
  if (error === undefined || error instanceof KeyhushError) return
  const such = "new NetworkError('https://a.example', 'away')"
  throw new UsageError(`failWith: ${expected('an error of @keyhush/client, or undefined', error)}; pass ${such}, say`)
}

export function checkChanges(changes: readonly { readonly op: string }[]): void {
  const such = "[{ op: 'edit', key: 'otter', value: 'lakes' }]"
  if (!Array.isArray(changes)) {
    throw new UsageError(`publish: ${expected('a list of changes', changes)}; pass ${such}`)
  }
  for (const change of changes) {
    if (tagOf(change) !== 'Object') {
      throw new UsageError(`publish: ${expected('each change to be an object', change)}; pass ${such}`)
    }
    oneOf('publish: op', ['add', 'edit', 'delete'], change.op)
  }
}

/** What each event has besides its type, without what may be undefined. */
const FIELDS = {
  discarded: ['reason'],
  updated: ['generation', 'epoch'],
  behind: ['epoch', 'servers'],
  outdated: ['reason'],
  postponed: ['mode', 'bytes'],
  preparing: [],
  prepared: [],
  'preparing-failed': [],
  mode: [],
  filter: ['state'],
  slow: ['servers'],
  resumed: ['what', 'pending'],
  'without-webassembly': [],
  unfenced: ['server', 'reason'],
  condemned: [],
  storage: ['storage', 'reason'],
} as const satisfies {
  readonly [T in MapEvent['type']]: readonly (keyof Extract<MapEvent, { readonly type: T }>)[]
}

export function checkEvent(event: MapEvent): void {
  if (tagOf(event) !== 'Object') {
    throw new UsageError(`announce: ${expected("an event such as { type: 'mode', mode: 'local' }", event)}`)
  }
  oneOf('announce: type', Object.keys(FIELDS), event.type)
  const lacking = FIELDS[event.type].filter(field => event[field as keyof MapEvent] === undefined)
  if (lacking.length > 0) {
    throw new UsageError(
      `announce: expected '${event.type}' with ${lacking.join(' and ')}, got it without; add what is missing`,
    )
  }
  if (event.type === 'mode' && event.mode !== undefined) oneOf('announce: mode', MODES, event.mode)
  if (event.type === 'filter') oneOf('announce: state', ['loading', 'ready', 'behind'], event.state)
}
