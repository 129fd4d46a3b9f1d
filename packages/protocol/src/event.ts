// `/v1/events`: lines that say which epoch is the newest (docs/protocol.md, Events). Clients check it before they use it.

import { fromHex, toHex } from './bytes.js'
import { WireError } from './errors.js'

/** A line, its line end included; all have this length. */
export const EVENT_BYTES = 96

export interface EpochEvent {
  readonly generation: number
  readonly epoch: number
}

/** The newest epoch of a database. */
export interface NewestEvent extends EpochEvent {
  readonly databaseId: Uint8Array
}

/** A line with its line end. */
export function encodeEvent({ databaseId, generation, epoch }: NewestEvent): string {
  return `${JSON.stringify({ database: toHex(databaseId), generation, epoch }).padEnd(EVENT_BYTES - 1)}\n`
}

const LINE = /^\{"database":"([\da-f]{32})","generation":([1-9]\d{0,9}),"epoch":([1-9]\d{0,9})\} *\n?$/

/** Reads a line, without or with its line end. Throws WireError for anything else. */
export function parseEvent(line: string): NewestEvent {
  const [, database = '', generation, epoch] = LINE.exec(line) ?? []
  const event = { databaseId: fromHex(database), generation: Number(generation), epoch: Number(epoch) }
  if (!(event.generation <= event.epoch && event.epoch <= 0xffff_ffff)) {
    throw new WireError('malformed', 'event: expected a line with a database, a generation and an epoch, got another')
  }
  return event
}
