// The JSON and URL parts of the protocol as TypeBox schemas, for the server's routes and for tests. A separate entry,
// `@keyhush/protocol/schemas`, so that clients do not carry TypeBox.

import { Type } from 'typebox'
import { DATABASE_PATH, DATABASES_NAMED, ERROR_CODES, type ErrorCode } from './error-reply.js'

const MAX_U32 = 0xffff_ffff
const positiveU32 = () => Type.Integer({ minimum: 1, maximum: MAX_U32 })
const hashDigits = () => Type.String({ pattern: '^[0-9a-f]{64}$' })

export const ErrorReplySchema = Type.Object({
  code: Type.Enum(Object.keys(ERROR_CODES) as ErrorCode[]),
  message: Type.String(),
  generation: Type.Optional(positiveU32()),
  epoch: Type.Optional(positiveU32()),
  line: Type.Optional(positiveU32()),
  databases: Type.Optional(Type.Array(Type.String({ pattern: DATABASE_PATH.source }), { maxItems: DATABASES_NAMED })),
})

const SignatureSchema = Type.Object({
  publicKey: hashDigits(),
  generation: positiveU32(),
  epoch: positiveU32(),
  signature: Type.String({ pattern: '^[0-9a-f]{128}$' }),
  proof: Type.Optional(hashDigits()),
})

export const InfoSchema = Type.Object({
  format: Type.Literal(1),
  software: Type.String(),
  database: Type.String({ pattern: '^[0-9a-f]{32}$' }),
  epochs: Type.Array(Type.Object({ generation: positiveU32(), epoch: positiveU32(), manifest: hashDigits() })),
  offers: Type.Object({
    proofs: Type.Array(Type.String()),
    updates: Type.Boolean(),
    push: Type.Boolean(),
    blobs: Type.Boolean(),
    fence: Type.Boolean(),
    instant: Type.Boolean(),
    single: Type.Boolean(),
    oneServer: Type.Boolean(),
    history: Type.Integer({ minimum: 0, maximum: MAX_U32 }),
  }),
  signatures: Type.Array(SignatureSchema),
})

/** A number in a URL: no sign, no zero before it, no other base, no space. Whether it fits a u32 the route checks. */
const decimal = () => Type.String({ pattern: '^(0|[1-9][0-9]{0,9})$' })

/** `?generation=G&epoch=E`; both or neither, which Fastify's validator cannot say and the route checks. */
export const ManifestQuerySchema = Type.Object({
  generation: Type.Optional(decimal()),
  epoch: Type.Optional(decimal()),
})

/** `?since=E`; 0: from the first epoch on */
export const ManifestsQuerySchema = Type.Object({ since: decimal() })

/** `/v1/epochs/<E>` */
export const EpochParamsSchema = Type.Object({ epoch: decimal() })
