// Who may publish: holders of the operator's token, signers with a publisher's key, or only those who are both. Looked
// at before a body is read, for a batch may be long and anyone may send one.

import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import {
  BATCH_SIGNATURE_HEADER,
  type BatchSignature,
  equalBytes,
  parseBatchSignature,
  signedBatchBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import { verifies } from '../base/ed25519.js'
import { Refusal } from '../base/refusal.js'

export interface PublishersOptions {
  /** demanded of every publisher */
  readonly token?: string | undefined
  /** 32 bytes each: batches must be signed with one of them, and no other key's signatures are kept */
  readonly keys?: readonly Uint8Array[] | undefined
}

export class Publishers {
  readonly #token: string | undefined
  readonly #keys: readonly Uint8Array[]

  constructor({ token, keys = [] }: PublishersOptions) {
    this.#token = token
    this.#keys = keys
  }

  /** Whether there are any. */
  get exist(): boolean {
    return this.#token !== undefined || this.#keys.length > 0
  }

  /** Whether the operator knows their keys. */
  get sign(): boolean {
    return this.#keys.length > 0
  }

  /** Throws an `unauthorized` Refusal without the token, if there is one. */
  checkToken(headers: IncomingHttpHeaders): void {
    if (this.#token !== undefined && !isAuthorized(headers.authorization, this.#token)) {
      throw new Refusal('unauthorized', "this takes the publisher's token")
    }
  }

  /**
   * What a publisher signed; undefined where no keys are known. Throws an `unauthorized` Refusal unless it verifies
   * under one of them, for this database. Whether the body is the batch that was signed remains to be seen.
   */
  checkBatch(headers: IncomingHttpHeaders, databaseId: Uint8Array): BatchSignature | undefined {
    if (!this.sign) return undefined
    const signature = readSignature(headers[BATCH_SIGNATURE_HEADER])
    this.checkKey(signature.publicKey)
    if (!verifies(signature.signature, signedBatchBytes({ ...signature, databaseId }), signature.publicKey)) {
      throw new Refusal('unauthorized', "the batch's signature does not verify for this database")
    }
    return signature
  }

  /** Throws an `unauthorized` Refusal for a key that is not a publisher's, where those are known. */
  checkKey(publicKey: Uint8Array): void {
    if (this.sign && !this.#keys.some(key => equalBytes(key, publicKey))) {
      throw new Refusal('unauthorized', `${toHex(publicKey)} is not the key of a publisher known here`)
    }
  }
}

function readSignature(header: string | string[] | undefined): BatchSignature {
  if (typeof header !== 'string') throw new Refusal('unauthorized', "this takes batches that a publisher's key signed")
  try {
    return parseBatchSignature(header)
  } catch (error) {
    if (error instanceof WireError) throw new Refusal('unauthorized', error.message)
    throw error
  }
}

/** Takes as long for a token that is nearly right as for one that is not at all. */
function isAuthorized(header: string | undefined, token: string): boolean {
  const given = Buffer.from(/^bearer +(.*)$/i.exec(header ?? '')?.[1] ?? '')
  const expected = Buffer.from(token)
  const same = given.length === expected.length
  return timingSafeEqual(same ? given : expected, expected) && same
}
