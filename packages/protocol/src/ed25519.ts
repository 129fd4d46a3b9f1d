// Which bytes may be an Ed25519 public key or signature (docs/protocol.md, Signatures). Libraries differ in what they refuse. Behind these
// checks, all that compare [S]B with R + [k]A exactly give the same verdict.

const POINT_BYTES = 32
/** p, the prime of the field */
const FIELD = 0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffedn
/** L, the order of the base point */
const ORDER = 0x1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3edn
/** all but the sign of x */
const Y_BITS = 0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffn
/** y of the eight points whose order divides 8 */
const SMALL_ORDER: readonly bigint[] = [
  0x0n,
  0x1n,
  0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffecn,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
]

/**
 * Whether bytes can be a public key: 32 bytes, canonical (y < p), and no point of small order, under which anybody can sign.
 * It does not check that the point is on the curve; whatever verifies signatures does.
 */
export function mayBePublicKey(bytes: Uint8Array): boolean {
  if (bytes.length !== POINT_BYTES) return false
  const y = numberOf(bytes) & Y_BITS
  return y < FIELD && !SMALL_ORDER.includes(y)
}

/** Whether bytes can be a signature: R as a public key has to be, and S < L. */
export function mayBeSignature(bytes: Uint8Array): boolean {
  return mayBePublicKey(bytes.subarray(0, POINT_BYTES)) && isScalar(bytes.subarray(POINT_BYTES))
}

function isScalar(bytes: Uint8Array): boolean {
  return bytes.length === POINT_BYTES && numberOf(bytes) < ORDER
}

/** little-endian */
function numberOf(bytes: Uint8Array): bigint {
  let number = 0n
  for (let i = bytes.length - 1; i >= 0; i--) number = (number << 8n) | BigInt(bytes[i]!)
  return number
}
