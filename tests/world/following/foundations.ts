// The first databases: tiny ones, with the first epoch signed. Q is 16, the least that is planned, so that a few dozen added keys make a
// generation pay.

import { signedBytes, toHex } from '@keyhush/protocol'
import { MemoryStorage, UpdatableDatabase } from '@keyhush/server'
import { ed25519 } from '@noble/curves/ed25519.js'
import { hash } from '../../interop/reference/hash.js'
import { type Foundation, keyed, keyless, layFoundations } from '../living/databases.js'
import { endHosts } from './hosts.js'
import { hexKey, KEYS } from './keys.js'

export interface Ground {
  readonly laid: Foundation
  /** with the first epoch, signed under the first key */
  readonly storage: MemoryStorage
  /** the hash of its manifest, in hex */
  readonly base: string
}

export interface Grounds {
  readonly keyed: Ground
  readonly packed: Ground
  readonly keyless: Ground
  remove(): Promise<void>
}

export async function layGrounds(): Promise<Grounds> {
  const { foundations, remove } = await layFoundations(async folder => [
    await keyed(folder, 40, 6, 1),
    await keyed(folder, 70, 6, 2),
    await keyless(folder, 48, 6),
  ])
  const [plain, packed, numbered] = await Promise.all(foundations.map(groundOn))
  return {
    ...{ keyed: plain!, packed: packed!, keyless: numbered! },
    remove: async () => {
      await endHosts()
      await remove()
    },
  }
}

async function groundOn(laid: Foundation): Promise<Ground> {
  const storage = new MemoryStorage()
  await UpdatableDatabase.create(storage, laid.dataset)
  const database = await UpdatableDatabase.open(storage)
  const { manifest, manifestBytes } = database.newest
  const { generation, epoch } = manifest
  const [key] = KEYS
  const signature = toHex(ed25519.sign(signedBytes(manifestBytes), key.secretKey))
  await database.addSignature({ publicKey: hexKey(key), generation, epoch, signature })
  await database.close()
  return { laid, storage, base: Buffer.from(hash(manifestBytes)).toString('hex') }
}
