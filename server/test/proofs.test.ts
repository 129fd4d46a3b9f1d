// Proofs of a publisher's log, at a server (docs/protocol/witnesses.md): kept by hash, and the longest stays.

import { parseInfo, signedBytes, signedProofBytes, toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { expect, onTestFinished, test } from 'vitest'
import { PUBLISHER } from '../../tests/support/publishing.js'
import { createServer, UpdatableDatabase } from '../dist/index.js'
import { batchOn, KEYED, opened, storageOf } from './updatable-helpers.js'

const OTHER = ed25519.keygen(new Uint8Array(32).fill(8))
const publisherKeys = [PUBLISHER.publicKey, OTHER.publicKey]
const key = toHex(PUBLISHER.publicKey)
const hashOf = (text: string) => toHex(blake3(Buffer.from(text)))

async function world() {
  const storage = await storageOf('a.csv', KEYED, { maxValueBytes: 20 })
  const updatable = await opened(storage)
  const app = await createServer({ datasets: [{ updatable, publisherKeys }], instant: false })
  onTestFinished(() => app.close())
  const signed = (text: string | undefined, by = PUBLISHER, of: { epoch?: number; text?: string } = {}) => {
    const { manifest, manifestBytes } = updatable.newest
    const { generation, epoch, databaseId } = manifest
    const message = signedProofBytes(databaseId, of.epoch ?? epoch, blake3(Buffer.from(of.text ?? text ?? '')))
    return {
      ...{ publicKey: toHex(by.publicKey), generation, epoch },
      signature: toHex(ed25519.sign(signedBytes(manifestBytes), by.secretKey)),
      ...(text !== undefined && { proof: text, proofSignature: toHex(ed25519.sign(message, by.secretKey)) }),
    }
  }
  const post = async (body: object) =>
    (await app.inject({ method: 'POST', url: '/v1/signatures', payload: Buffer.from(JSON.stringify(body)) })).statusCode
  const shown = async (from = app) =>
    parseInfo((await from.inject('/v1/info')).json()).signatures.map(({ publicKey, proof }) => [publicKey, proof])
  const blob = async (text: string) => (await app.inject(`/v1/blobs/${hashOf(text)}`)).statusCode
  return { storage, updatable, app, signed, post, shown, blob }
}

test('a signature waits for its proof, and the longest proof stays, whoever sends which again', async () => {
  const { updatable, app, signed, post, shown, blob } = await world()
  const lines: unknown[] = []
  const end = updatable.signed.listen(event => lines.push(event))
  expect(await post(signed(undefined))).toBe(200)
  expect(await shown()).toEqual([[key, undefined]])
  expect(await post(signed('short — one'))).toBe(200)
  expect(await shown()).toEqual([[key, hashOf('short — one')]])
  expect((await app.inject(`/v1/blobs/${hashOf('short — one')}`)).rawPayload.toString()).toBe('short — one')
  expect(lines).toHaveLength(2)

  expect(await post(signed('the longer one'))).toBe(200)
  for (const replayed of [undefined, 'short — one', 'the langer one', 'the longer one']) {
    expect(await post(signed(replayed))).toBe(200)
    expect(await shown()).toEqual([[key, hashOf('the longer one')]])
  }
  expect([await blob('the longer one'), await blob('short — one')]).toEqual([200, 404])
  expect(lines).toHaveLength(3)
  end()
})

test('two that come at once leave the longer one, and each key has its own', async () => {
  const { updatable, signed, post, shown } = await world()
  await post(signed('of the first key'))
  const proofs = Array.from({ length: 8 }, (_, i) => 'x'.repeat(i + 1))
  await Promise.all([...proofs.reverse(), undefined].map(text => updatable.addSignature(signed(text, OTHER))))
  expect(await shown()).toContainEqual([toHex(OTHER.publicKey), hashOf('xxxxxxxx')])
  expect(await shown()).toContainEqual([key, hashOf('of the first key')])
})

test('garbage of strangers changes nothing: signatures of another proof, epoch or key, or of the manifest', async () => {
  const { signed, post, shown, blob } = await world()
  await post(signed('short'))
  const before = await shown()
  const long = 'a proof that is longer than all before'
  const { signature } = signed(undefined)
  const forged = [
    signed(long, PUBLISHER, { text: 'another' }),
    signed(long, PUBLISHER, { epoch: 2 }),
    { ...signed(long), proofSignature: signature },
    { ...signed(long), proofSignature: signed(long, OTHER).proofSignature },
  ]
  for (const body of forged) expect(await post(body)).toBe(400)
  expect(await shown()).toEqual(before)
  expect(await blob(long)).toBe(404)
})

test('it outlives the process, and goes with its epoch', async () => {
  const { storage, updatable, signed, post, shown, blob } = await world()
  await post(signed('a proof'))
  expect(await shown()).toEqual([[key, hashOf('a proof')]])
  const again = await UpdatableDatabase.open(storage)
  const other = await createServer({ datasets: [{ updatable: again, publisherKeys }], instant: false })
  expect(await shown(other)).toEqual(await shown())
  await other.close()
  await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'a' }]))
  expect(await blob('a proof')).toBe(200)
  await updatable.publish(batchOn(updatable, [{ op: 'edit', key: 'one', value: 'b' }]))
  expect(await blob('a proof')).toBe(404)
  expect(await shown()).toEqual([])
})
