// Whose state it is.

/**
 * The servers' names, ascending: whose state it is, whatever the order in `servers` (S5). `tolerated` follows the names of two
 * servers that may be one party: maps of these servers without that have a state of their own.
 */
export type Identity = readonly string[]

/** The part of an identity, behind the servers' names, that says that its two servers count as one party. */
export const ONE_PARTY = 'tolerated'

/** Whether two identities have a server in common, and not all of them: of their states one may stay (S5). */
export function isRival(one: readonly string[], other: readonly string[]): boolean {
  const [ours, theirs] = [one, other].map(parts => parts.filter(part => part !== ONE_PARTY)) as [string[], string[]]
  const shared = ours.filter(server => theirs.includes(server)).length
  return shared > 0 && (shared < ours.length || shared < theirs.length)
}
