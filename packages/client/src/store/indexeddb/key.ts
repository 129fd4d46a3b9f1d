// The key that seals an identity's secrets, as the database keeps it.

import { newSealingKey } from '../sealed.js'
import { type DatabaseConnection, isDomException, queue } from './connection.js'

export class SealingKey {
  readonly #connection: DatabaseConnection
  readonly #identity: string
  #key: Promise<CryptoKey> | undefined

  constructor(connection: DatabaseConnection, identity: string) {
    this.#connection = connection
    this.#identity = identity
  }

  /** Not on insecure origins, which have no WebCrypto, nor where a browser refuses to keep keys (some private windows). */
  async isPossible(): Promise<boolean> {
    if (globalThis.crypto?.subtle === undefined) return false
    try {
      await this.get()
      return true
    } catch (error) {
      if (error instanceof Error && isDomException(error.cause, 'DataCloneError')) return false
      throw error
    }
  }

  /** Makes a key if there is none, or if the stored key does not work. What a broken key has sealed is unreadable. */
  get(): Promise<CryptoKey> {
    this.#key ??= this.#obtain().catch((error: unknown) => {
      this.#key = undefined
      throw error
    })
    return this.#key
  }

  /** The next use reads it anew. */
  forget(): void {
    this.#key = undefined
  }

  async #obtain(): Promise<CryptoKey> {
    const fresh = await newSealingKey() // before the transaction, in case it is needed
    return await this.#connection.write('strict', async tx => {
      const keys = tx.objectStore('keys')
      const kept = await keys.get(this.#identity)
      if (kept instanceof CryptoKey) return kept
      queue([keys.put(fresh, this.#identity)])
      return fresh
    })
  }
}
