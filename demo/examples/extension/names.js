// Which keys an address is looked up by. demo/src/page/domains.ts does the same.

/** Every visit that asks has so many keys: fewer would show how many labels the host has. */
export const KEYS_PER_VISIT = 8

/** The host, and the domains above it down to two labels: a listed domain lists all below it. */
export function namesOf(address) {
  const host = new URL(address).hostname.replace(/\.$/, '')
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return [host]
  const labels = host.split('.')
  const parents = labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join('.'))
  return [host, ...parents.slice(1 - KEYS_PER_VISIT)]
}
