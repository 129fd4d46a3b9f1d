// From what a person types or pastes to the keys to ask for.

/** How many keys a lookup asks for, whatever was typed: the length of a domain name is nobody's business either. */
export const KEYS_PER_LOOKUP = 8

/**
 * The host in `text`, lower-case and in punycode, from a bare domain, a URL or a defanged one (`hxxps://evil[.]example`).
 * undefined if there is none.
 */
export function hostOf(text: string): string | undefined {
  const plain = text.trim().replaceAll(/\[\.\]|\(\.\)/g, '.')
  const withoutScheme = plain.replace(/^(?:[a-z][a-z0-9+.-]*:)?\/\//i, '')
  try {
    const host = new URL(`http://${withoutScheme}`).hostname.replace(/\.$/, '')
    const isAddress = host.startsWith('[')
    return isAddress || host.split('.').every(label => /^[a-z0-9_-]+$/.test(label)) ? host : undefined
  } catch {
    return undefined
  }
}

/**
 * The host and the domains above it, down to two labels, the host first: a listed domain lists all below it. At most
 * KEYS_PER_LOOKUP; of a deeper host, itself and the shortest.
 */
export function hostAndParents(host: string): string[] {
  const isAddress = host.startsWith('[') || /^[\d.]+$/.test(host)
  if (isAddress) return [host]
  const labels = host.split('.')
  const parents = labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join('.'))
  return [host, ...parents.slice(-(KEYS_PER_LOOKUP - 1))]
}
