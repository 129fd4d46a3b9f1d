// A server's stream of new epochs (docs/protocol.md, Events), read with an ordinary fetch. A line is a reason to ask both servers
// (target.ts), and no more. One tab of an origin reads it, and passes the lines on to the others.

import { EVENT_BYTES, type NewestEvent, parseEvent, WireError } from '@keyhush/protocol'
import { scoped } from '../base/abort.js'
import { EVENTS_DROPPED_MS, EVENTS_PAUSE_MS, EVENTS_SILENCE_MS } from '../base/constants.js'
import { ServerError, UsageError } from '../base/errors.js'
import type { Tabs } from '../platform/tabs.js'
import { sleep } from './ask.js'
import { infoOf } from './info.js'
import { fromWire } from './manifests.js'
import { type Link, type Links, readStream } from './transport.js'

/** Receives what a server announces. `drop` closes the stream, and the next one opens much later. */
export type Notify = (newest: NewestEvent, drop: () => void) => void

/** Calls `take` for each line of a server, until `signal` aborts or there is nothing to read. */
export type Read = (link: Link, take: (line: string, drop: () => void) => void, signal: AbortSignal) => Promise<void>

/** Calls `notify` for each line of a server, whichever tab reads it, until `signal` aborts or there is nothing to read. */
export async function subscribe(
  link: Link,
  tabs: Tabs,
  notify: Notify,
  signal: AbortSignal,
  read: Read = readLines,
): Promise<void> {
  const name = channelOf(link)
  const { clock } = link.environment
  let reads = false
  let newest: { readonly line: string; readonly at: number } | undefined
  let deafUntil = Number.NEGATIVE_INFINITY
  const stopHearing = () => {
    if (read === readLines) deafUntil = clock.now() + EVENTS_DROPPED_MS
  }
  const unsubscribe = tabs.subscribe(name, message => {
    if (reads && message === undefined && newest !== undefined)
      tabs.notify(name, [newest.line, clock.now() - newest.at])
    const heard = reads || clock.now() < deafUntil ? undefined : heardIn(link, message)
    if (heard !== undefined) notify(heard, stopHearing)
  })
  tabs.notify(name) // asks for the newest line
  const share = (line: string, drop: () => void) => {
    notify(
      fromWire(link, () => parseEvent(line)),
      drop,
    )
    newest = { line, at: clock.now() }
    tabs.notify(name, [line, 0])
  }
  const lead = async (signal: AbortSignal) => {
    reads = true
    await read(link, share, signal).finally(() => {
      reads = false
    })
  }
  await tabs.elect(name, lead, signal).finally(unsubscribe)
}

/** Notes when other tabs ask servers, while this one does not listen itself: it may be hidden. Returns what ends it. */
export function hearLooks(links: Links, tabs: Tabs): () => void {
  const ends = links.map(link => tabs.subscribe(channelOf(link), message => void heardIn(link, message)))
  return () => {
    for (const end of ends) end()
  }
}

function channelOf({ server }: Link): string {
  return `keyhush events ${server.name}`
}

/** The line that another tab has read, and how many milliseconds ago, which is noted. Undefined if the message is none. */
function heardIn({ server, standing, environment }: Link, message: unknown): NewestEvent | undefined {
  const [line, ago] = Array.isArray(message) ? message : []
  if (typeof line !== 'string' || typeof ago !== 'number' || !(ago >= 0)) return undefined
  try {
    const newest = parseEvent(line)
    standing.noteLook({ server }, environment.clock.now() - ago)
    return newest
  } catch (error) {
    if (error instanceof WireError) return undefined
    throw error
  }
}

/**
 * Calls `take` for each line of a server, until `signal` aborts. Opens a stream again after it has ended, and at once when the device
 * is online again: the old stream may be dead without an end. Returns if the server has no stream: its database never changes, or it is a folder.
 */
const readLines: Read = async (link, take, signal) => {
  const decoder = new TextDecoder()
  const { clock, connection } = link.environment
  let hasNone = false
  while (!signal.aborted) {
    const [dropped, online] = [new AbortController(), new AbortController()]
    const withdraw = connection?.whenOnline(() => online.abort())
    const takeBytes = (line: Uint8Array) => take(decoder.decode(line), () => dropped.abort())
    const opened = clock.now()
    try {
      const hasEnded = await scoped([signal, dropped.signal, online.signal], async signal => {
        await readStream(link, '/v1/events', EVENT_BYTES, EVENTS_SILENCE_MS, takeBytes, signal)
        return true
      }).catch(error => {
        const isCut = signal.aborted || dropped.signal.aborted || online.signal.aborted
        const cannotStream = error instanceof UsageError // the app's fetch()
        if (!isCut && !cannotStream && !(error instanceof ServerError)) throw error
        hasNone = cannotStream || (error instanceof ServerError && error.refusal === 'not_found')
        return false
      })
      if (hasNone) return
      if (dropped.signal.aborted) await sleep(clock, EVENTS_DROPPED_MS, signal)
      else if (!online.signal.aborted && !signal.aborted) {
        const left = opened + EVENTS_PAUSE_MS - clock.now()
        if (hasEnded && left > 0) await infoOf(link, signal).catch(() => {}) // a folder has one line
        if (link.standing.offers.get(link.server.name)?.push === false) return
        if (left > 0) await scoped([signal, online.signal], either => sleep(clock, left, either))
      }
    } finally {
      withdraw?.()
    }
  }
}
