// Parses one flat JSON object strictly. Readers disagree about a member that stands twice, and about numbers such as 1.0 or 1e0:
// both are refused.

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g
/** A sign, a point or an exponent outside of strings. JSON itself refuses leading zeros. */
const NOT_DIGITS_ALONE = /[-.]|\d[eE]/

/** The object's members, or why the text is refused. */
export function parseMembers(text: string): Record<string, unknown> | string {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return 'it is not JSON'
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return 'it is not a JSON object'
  for (const [name, value] of Object.entries(json)) {
    if (typeof value === 'object') return `the member ${JSON.stringify(name.slice(0, 40))} is not text or a number`
  }
  const bare = text.replace(STRING, '')
  if (NOT_DIGITS_ALONE.test(bare)) return 'a number has a sign, a point or an exponent; write digits alone'
  // Outside of strings only members have a colon.
  const written = bare.split(':').length - 1
  return written === Object.keys(json).length ? (json as Record<string, unknown>) : 'a member appears twice; remove one'
}
