// One JSON object without objects inside, strictly: a member that stands twice is refused, where JSON.parse would take the
// last one and another reader the first; and so is a number not written as digits alone, which one reader takes for whole
// and another does not.

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g
/** In JSON outside of strings: a sign, a point or an exponent. A zero in front it has not. */
const NOT_DIGITS_ALONE = /[-.]|\d[eE]/

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
    if (typeof value === 'object') return `the member ${JSON.stringify(name.slice(0, 40))} is null, a list or an object`
  }
  const bare = text.replace(STRING, '')
  if (NOT_DIGITS_ALONE.test(bare)) return 'a number is not written as digits alone'
  // Every member that was written has a colon outside of strings, and nothing else has.
  const written = bare.split(':').length - 1
  return written === Object.keys(json).length ? (json as Record<string, unknown>) : 'a member stands there twice'
}
