// What tests of lookups with one server share: requests as a client makes them, at the base that a manifest names.

import {
  baseOf,
  decodeOneServerAnswer,
  encodeManifest,
  encodeOneServerQuery,
  type InstantOf,
  instantLayout,
  type Manifest,
  ONE_SERVER_PATH,
  parseErrorReply,
  toHex,
} from '@keyhush/protocol'
import { type Core, loadCore, type OneServerCore } from '@keyhush/wasm'
import type { FastifyInstance } from 'fastify'
import { expect, onTestFinished, vi } from 'vitest'
import { entropy, hex } from './computing.js'
import { post as postTo } from './helpers.js'

export const EXPIRES = 4_000_000_000
export const HINTED = { oneServer: true, expires: EXPIRES }

const core: Core = await loadCore()
const client: OneServerCore = core

/** A request, and what its reply says with this hint. */
export function lookup(manifest: Manifest, indices: readonly number[], of: InstantOf = 'records') {
  const base = baseOf(manifest)
  const { records, recordBytes } = instantLayout(base, of)
  const { databaseId, generation } = base
  const hash = core.blake3(encodeManifest(manifest))
  const context = { databaseId, generation, of }
  const query = client.newOneServerQuery({ records, recordBytes }, context, hash, Uint32Array.from(indices), entropy())
  onTestFinished(() => query.free())
  const { answerBytes } = client.oneServerSizes({ records, recordBytes })
  const read = (reply: Uint8Array, hint: Uint8Array) => {
    const found = query.decode(hint, decodeOneServerAnswer(base, of, indices.length, answerBytes, reply))
    return found === undefined ? 'forged' : hex(found)
  }
  return { body: Buffer.from(encodeOneServerQuery(base, of, indices.length, query.request())), answerBytes, read }
}

export const post = (app: FastifyInstance, payload: Buffer) => postTo(app, ONE_SERVER_PATH, payload)
export const codeOf = ({ body }: { readonly body: string }) => parseErrorReply(body).code
export const ready = async (app: FastifyInstance) => {
  await vi.waitFor(async () => expect((await app.inject('/readyz')).statusCode).toBe(200), { timeout: 30_000 })
}
export const blobAt = async (app: FastifyInstance, hash: Uint8Array) =>
  new Uint8Array((await app.inject(`/v1/blobs/${toHex(hash)}`)).rawPayload)
export const hintAt = (app: FastifyInstance, { oneServer }: Manifest) => blobAt(app, oneServer!.hintHash)

/** The records at these indices of the base, or the code of the refusal. */
export async function found(app: FastifyInstance, manifest: Manifest, indices: readonly number[]): Promise<string> {
  const { body, read } = lookup(manifest, indices)
  const reply = await post(app, body)
  return reply.statusCode === 200 ? read(reply.rawPayload, await hintAt(app, manifest)) : codeOf(reply)
}
