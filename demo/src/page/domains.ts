// Turns what a person types or pastes into the keys to look up.

/** Every lookup asks for so many keys: fewer would show how many labels the domain has. */
export const KEYS_PER_LOOKUP = 8

/**
 * The host in `text`, in lower case and punycode, from a domain, a URL or a defanged URL (`hxxps://evil[.]example`). undefined:
 * there is none.
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
 * The host, then the domains above it down to two labels: a listed domain lists all below it. At most KEYS_PER_LOOKUP: a deeper
 * host itself, and the shortest of its parents.
 */
export function hostAndParents(host: string): string[] {
  const isAddress = host.startsWith('[') || /^[\d.]+$/.test(host)
  if (isAddress) return [host]
  const labels = host.split('.')
  const parents = labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join('.'))
  return [host, ...parents.slice(-(KEYS_PER_LOOKUP - 1))]
}
