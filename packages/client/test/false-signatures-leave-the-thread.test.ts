// One server can list false signatures of every epoch of a chain. Without WebCrypto's Ed25519 each takes JavaScript milliseconds: a page
// has to be able to paint between them.

import type { Info, Manifest } from '@keyhush/protocol'
import { toHex } from '@keyhush/protocol'
import { ed25519 } from '@noble/curves/ed25519.js'
import { expect, test } from 'vitest'
import { platformEnvironment } from '../dist/platform/whole.js'
import { Publisher } from '../dist/servers/signatures.js'

test('false signatures are looked at with the thread given back after each', async () => {
  const { publicKey, secretKey } = ed25519.keygen()
  const publisher = new Publisher(toHex(publicKey), { ...platformEnvironment(), subtle: undefined })
  const manifest = { generation: 1, epoch: 2, expires: 0 } as Manifest
  const signatures = [0, 1, 2, 3].map(i => ({
    ...{ publicKey: toHex(publicKey), generation: 1, epoch: 2 },
    signature: toHex(ed25519.sign(Uint8Array.of(i), secretKey)),
  }))
  let turns = 0
  let over = false
  const turn = () => {
    turns++
    if (!over) setImmediate(turn)
  }
  setImmediate(turn)
  const infos = [{ signatures }, { signatures }] as unknown as Info[]
  const check = publisher.check(
    { manifest, bytes: new Uint8Array(300) },
    [] as never,
    new AbortController().signal,
    infos,
  )
  await expect(check).rejects.toThrow(/got none that is valid/)
  over = true
  expect(turns).toBeGreaterThanOrEqual(8)
})
