// What the publisher has made: what each epoch holds, as a plain map, and the batches that made it. It is known when the first server
// takes a batch; two batches for one epoch are a fork.

import { decodeBatch, equalBytes, fromHex } from '@keyhush/protocol'
import { renewed } from '../living/databases.js'
import { type Operation, Version } from '../living/model.js'

export class Truth {
  readonly versions = new Map<number, Version>()
  /** the batch that made an epoch */
  readonly bodies = new Map<number, Uint8Array>()
  /** when an epoch expires, in seconds since 1970; 0: never */
  readonly expires = new Map<number, number>()
  newest: Version

  constructor(first: Version) {
    this.newest = first
    this.versions.set(first.epoch, first)
    this.expires.set(first.epoch, 0)
  }

  /** A server has taken a batch. Returns what is wrong with that. */
  took(body: Uint8Array): string | undefined {
    const { epoch, expires, operations } = decodeBatch(body)
    const known = this.bodies.get(epoch)
    if (known !== undefined) return equalBytes(known, body) ? undefined : `two batches make epoch ${epoch}`
    const before = this.versions.get(epoch - 1)
    if (before === undefined) return `epoch ${epoch} is made on none that is known`
    const next = after(before, operations)
    this.bodies.set(epoch, body)
    this.versions.set(epoch, next)
    this.expires.set(epoch, expires)
    this.newest = next
    return undefined
  }
}

function after(before: Version, operations: Uint8Array): Version {
  const lines = new TextDecoder()
    .decode(operations)
    .split('\n')
    .filter(line => line !== '')
  const all = lines.map(line => JSON.parse(line) as { op: string; value?: string; headroom?: number })
  if (all[0]?.op === 'generation') return renewed(before, all[0].headroom ?? 0)
  if (all[0]?.op === 'renew') return new Version(before.shape, before.epoch + 1, before.slots)
  const read = all.map(
    ({ value, ...rest }) => ({ ...rest, ...(value !== undefined && { value: fromHex(value) }) }) as Operation,
  )
  const next = before.after(read)
  if (!(next instanceof Version)) throw new Error(`a server has taken a batch that cannot be, line ${next.operation}`)
  return next
}

/** Operations as the publisher reads them, with values in hex. */
export function linesOf(operations: readonly object[]): Uint8Array {
  const hex = (_name: string, part: unknown) => (part instanceof Uint8Array ? Buffer.from(part).toString('hex') : part)
  return new TextEncoder().encode(operations.map(operation => `${JSON.stringify(operation, hex)}\n`).join(''))
}
