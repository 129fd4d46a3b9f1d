// How a confidential database is told from others (docs/protocol/confidential.md): its id begins with `conf`, its keys with `~`.

/** What its name begins with. */
export const CONFIDENTIAL_NAME = 'confidential-'

/** The id of a confidential database, of a hash of its name. */
export const confidentialId = (hash: Uint8Array): Uint8Array =>
  Uint8Array.from([99, 111, 110, 102, ...hash.subarray(4)])

/** Whether a list has keys of this form: those of a confidential one are `~` and 64 hexadecimal digits. Others have any. */
export const mayHave = (databaseId: Uint8Array, key: Uint8Array): boolean =>
  !`${databaseId}`.startsWith('99,111,110,102,') || (key.length === 65 && key[0] === 126)
