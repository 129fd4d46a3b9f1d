// Numbers in URLs: decimal digits and nothing else, which the schemas see to, and no more than a u32 holds.

import { Refusal } from '../../base/refusal.js'

/** Throws a `bad_request` Refusal beyond 2^32 - 1. */
export function numberOf(digits: string): number {
  const number = Number(digits)
  if (number > 0xffff_ffff) throw new Refusal('bad_request', 'a number in the URL is beyond 2^32 - 1')
  return number
}
