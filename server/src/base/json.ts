// One JSON object without objects inside, strictly: a member that stands twice is refused, where JSON.parse would take the
// last one and another reader the first.

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g

/** The members of an object, or what is wrong with the text. */
export function parseMembers(text: string): Record<string, unknown> | string {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return 'it is not JSON'
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return 'it is not a JSON object'
  for (const [name, value] of Object.entries(json)) {
    if (typeof value === 'object') return `the member ${JSON.stringify(name.slice(0, 40))} is not a string or a number`
  }
  // Every member that was written has a colon outside of strings, and nothing else has.
  const written = text.replace(STRING, '').split(':').length - 1
  return written === Object.keys(json).length ? (json as Record<string, unknown>) : 'a member stands there twice'
}
