// Whose state it is.

/**
 * The servers' names, ascending: whose state it is, whatever the order in `servers` (S5). `tolerated` follows the names of two
 * servers that may be one party: maps of these servers without that have a state of their own. So does `agreedBy`.
 */
export type Identity = readonly string[]

/** The part of an identity, behind the servers' names, that says that its two servers count as one party. */
export const ONE_PARTY = 'tolerated'

/** The part that says how many of its servers had to agree, if fewer than all: maps that ask for more have a state of their own. */
export function agreedBy(atLeast: number): string {
  return `least${atLeast}`
}

/** Whether a part of an identity is no server. */
export function isCondition(part: string): boolean {
  return part === ONE_PARTY || /^least[2-7]$/.test(part)
}

/** Whether two identities have a server in common, and not all of them: of their states one may stay (S5). */
export function isRival(one: readonly string[], other: readonly string[]): boolean {
  const [ours, theirs] = [one, other].map(parts => parts.filter(part => !isCondition(part))) as [string[], string[]]
  const shared = ours.filter(server => theirs.includes(server)).length
  return shared > 0 && (shared < ours.length || shared < theirs.length)
}
