// A hint and what belongs to it for life: the manifest it was made under, the directory, and which server has which
// role. Replaced as a whole by `reset()`; nothing of one hint is ever carried over to the next.

import type { Manifest } from '@pirouette/protocol'
import type { ClientHandle, Core, DirectoryHandle, RoleNumber } from '@pirouette/wasm'
import { assertAlive, inCore, release } from './core.js'
import { CondemnedError, type PirouetteError, StorageError } from './errors.js'
import type { ServerPair } from './servers.js'
import type { HintRecord } from './store/store.js'

export class Hint {
  readonly core: Core
  readonly manifest: Manifest
  readonly client: ClientHandle
  /** undefined in a keyless database */
  readonly directory: DirectoryHandle | undefined
  /** the role of the first and of the second server of the pair */
  readonly roles: readonly [RoleNumber, RoleNumber]
  /** bytes of parities, M·ℓ */
  readonly hintBytes: number
  /** bytes of permutations, 2·Q·M */
  readonly permutationBytes: number
  #trouble: (() => PirouetteError) | undefined

  constructor(parts: Pick<Hint, 'core' | 'manifest' | 'client' | 'directory' | 'roles'>) {
    this.core = parts.core
    this.manifest = parts.manifest
    this.client = parts.client
    this.directory = parts.directory
    this.roles = parts.roles
    this.hintBytes = inCore(this.core, () => this.client.hintBytes)
    this.permutationBytes = inCore(this.core, () => this.client.permutationBytes)
  }

  /** Throws why this hint must not be used, if it must not. */
  assertUsable(): void {
    assertAlive(this.core)
    if (this.#trouble !== undefined) throw this.#trouble()
  }

  /** A server's answer failed verification; without a culprit, the local state is at fault. */
  condemn(culprit: string | undefined): void {
    this.#trouble ??= () => new CondemnedError(culprit)
  }

  /** The store has not taken an effect that the parities have: they no longer agree. */
  lose(): void {
    this.#trouble ??= () => new StorageError('the last change could not be stored; call reset(), or open() anew')
  }

  /** Overwrites and frees the secrets. */
  free(): void {
    release(this.core, this.client)
    release(this.core, this.directory)
  }
}

/** What the store keeps from the start: roles by name, so that the order of `servers` never matters (S5). */
export function hintRecord(hint: Hint, servers: ServerPair, manifestBytes: Uint8Array): HintRecord {
  const [a, b] = [servers[0].name, servers[1].name]
  const [retrieveServer, refreshServer] = hint.roles[0] === 0 ? [a, b] : [b, a]
  return { retrieveServer, refreshServer, manifest: manifestBytes }
}
