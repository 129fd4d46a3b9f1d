// For `keyhush-confidential serve --authorize`: each lookup spends a token of Privacy Pass (RFC 9578, type 2, blind RSA). The evaluator cannot
// tell who got the token. It needs nothing but Node. Environment:
//
//   ISSUER      the issuer's name
//   ISSUER_KEY  its token key in base64url, as its directory has it
//   ORIGIN      the host of this evaluator, as apps name it: a token is for one evaluator alone
//   SPENT       a file that keeps what was spent, for one process. Begin a new file with each new key of the issuer
//
// All tokens count as one client, so give `serve` the same number for --per-client-day, --per-network-day and --total-day.

import { constants, createHash, createPublicKey, verify } from 'node:crypto'
import { appendFileSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs'

const { ISSUER, ISSUER_KEY, ORIGIN, SPENT } = process.env

/** What one token buys: a lookup of one key, and never a value of a priced list, for which an evaluator asks with one element. */
const ELEMENTS = 2

const TOKEN_TYPE = 2
/** token type (2) ‖ nonce (32) ‖ challenge digest (32) ‖ token key id (32) ‖ signature (256) */
const [NONCE, DIGEST, SIGNATURE, TOKEN_BYTES] = [2, 34, 98, 354]

const tokenKey = Buffer.from(ISSUER_KEY, 'base64url')
const publicKey = createPublicKey({ key: tokenKey, format: 'der', type: 'spki' })
const sha256 = bytes => createHash('sha256').update(bytes).digest()

const uint16 = number => Buffer.from([number >> 8, number & 255])
const sized = text => Buffer.concat([uint16(Buffer.byteLength(text)), Buffer.from(text)])
/** RFC 9577: token type, issuer, no redemption context, origin. */
const challenge = Buffer.concat([uint16(TOKEN_TYPE), sized(ISSUER), Buffer.of(0), sized(ORIGIN)])
const accepted = Buffer.concat([sha256(challenge), sha256(tokenKey)])

appendFileSync(SPENT, '\n') // ends a line that a crash has cut
/** Tokens, and the requests for which they were spent. */
const spent = new Map(
  readFileSync(SPENT, 'utf8')
    .split('\n')
    .map(line => line.split(' ')),
)
const file = openSync(SPENT, 'a')

export default function authorize(token, elements, request) {
  const nonce = Buffer.from(token.subarray(NONCE, DIGEST)).toString('hex')
  if (elements !== ELEMENTS || !isGenuine(Buffer.from(token))) return undefined
  // The same request again, after a restart: its reply was lost.
  if (spent.has(nonce)) return spent.get(nonce) === request ? 'token' : undefined
  writeSync(file, `${nonce} ${request}\n`)
  fdatasyncSync(file) // before the reply leaves
  spent.set(nonce, request) // not before: on a full disk, the same token may come again
  return 'token'
}

function isGenuine(token) {
  if (token.length !== TOKEN_BYTES || token.readUInt16BE(0) !== TOKEN_TYPE) return false
  if (!token.subarray(DIGEST, SIGNATURE).equals(accepted)) return false
  const key = { key: publicKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 }
  return verify('sha384', token.subarray(0, SIGNATURE), key, token.subarray(SIGNATURE))
}
