// Parses one flat JSON object strictly. Readers disagree about a member that stands twice, and about numbers such as 1.0 or 1e0:
// both are refused.

/** Most characters outside of strings: far more than any object here has. So what is parsed has few members, however long it is. */
const MOST_OUTSIDE_STRINGS = 1024
/** A sign, a point or an exponent outside of strings. JSON itself refuses leading zeros. */
const NOT_DIGITS_ALONE = /[-.]|\d[eE]/
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** The object's members, or why the text is refused. */
export function parseMembers(text: string): Record<string, unknown> | string {
  const bare = outsideStrings(text)
  if (bare.length > MOST_OUTSIDE_STRINGS) {
    return `expected at most ${MOST_OUTSIDE_STRINGS} characters outside of strings, got ${bare.length}; leave out spaces and other members`
  }
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
  if (NOT_DIGITS_ALONE.test(bare)) return 'a number has a sign, a point or an exponent; write digits alone'
  // Outside of strings only members have a colon.
  const written = bare.split(':').length - 1
  return written === Object.keys(json).length ? (json as Record<string, unknown>) : 'a member appears twice; remove one'
}

/** Not by a regular expression: one that skips escapes overflows the stack in a long string. */
function outsideStrings(text: string): string {
  let outside = ''
  let end = 0
  for (let start = text.indexOf('"'); start !== -1; start = text.indexOf('"', end)) {
    outside += text.slice(end, start)
    end = endOfString(text, start)
  }
  return outside + text.slice(end)
}

/** The place behind the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at + 1
}
