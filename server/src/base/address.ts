// Client addresses by the network they belong to, since one party may have all of it. They are kept in memory alone.

import { isIPv4, isIPv6 } from 'node:net'

/** An IPv4 address's /24 or an IPv6 address's /48, for counting. Whatever is neither counts as one. */
export const networkOf = (address: string): string => partOf(address, 3, 3)

/** An IPv4 address, or an IPv6 address's /64. */
export const clientOf = (address: string): string => partOf(address, 4, 4)

/** The first bytes of an IPv4 address, or the first groups of an IPv6 address. */
function partOf(address: string, bytes: number, first: number): string {
  if (isIPv4(address)) return address.split('.').slice(0, bytes).join('.')
  if (!isIPv6(address)) return 'unknown'
  const [plain] = address.split('%', 1) as [string] // without a zone
  const mapped = /^(?:0*:)*:?(?:0+:)*ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1]
  if (mapped !== undefined) return partOf(mapped, bytes, first)
  const [head, tail] = plain.split('::') as [string, string?]
  const groups = head === '' ? [] : head.split(':')
  // Of an address with `::` in what is asked for, what it stands for there is zero, but for a short gap.
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  const gap = 8 - groups.length - behind.length - (behind.at(-1)?.includes('.') ? 1 : 0)
  const all = tail === undefined ? groups : [...groups, ...Array<string>(Math.max(0, gap)).fill('0'), ...behind]
  return all
    .slice(0, first)
    .map(group => Number.parseInt(group, 16).toString(16))
    .join(':')
}
