// `/v1/events`: lines that say which epoch is the newest (docs/protocol.md, Events). Clients check it before they use it.

import { WireError } from './errors.js'

/** A line, its line end included; all have this length. */
export const EVENT_BYTES = 48

export interface EpochEvent {
  readonly generation: number
  readonly epoch: number
}

/** A line with its line end. */
export function encodeEvent({ generation, epoch }: EpochEvent): string {
  return `${JSON.stringify({ generation, epoch }).padEnd(EVENT_BYTES - 1)}\n`
}

/** Reads a line, without or with its line end. Throws WireError for anything else. */
export function parseEvent(line: string): EpochEvent {
  const [, generation, epoch] = /^\{"generation":([1-9]\d{0,9}),"epoch":([1-9]\d{0,9})\} *\n?$/.exec(line) ?? []
  const event = { generation: Number(generation), epoch: Number(epoch) }
  if (!(event.generation <= event.epoch && event.epoch <= 0xffff_ffff)) {
    throw new WireError('malformed', 'event: expected a line with a generation and an epoch, got another')
  }
  return event
}
