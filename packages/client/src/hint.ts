// A hint and what belongs to it: for life its id and which server has which role; and the epoch it is at, manifest and
// directory. Nothing of one hint is ever carried over to the next.

import type { Manifest, Proofs } from '@pirouette/protocol'
import type { ClientHandle, Core, DirectoryHandle, LayoutHandle, RoleNumber } from '@pirouette/wasm'
import { inCore, release } from './core.js'
import { StorageError } from './errors.js'
import type { Agreed } from './manifest.js'
import type { ServerPair } from './servers.js'
import type { HintRecord } from './store/store.js'
import type { Base } from './sync.js'
import type { Link } from './transport.js'

export class Hint {
  readonly core: Core
  readonly client: ClientHandle
  /** the role of the first and of the second server of the pair */
  readonly roles: readonly [RoleNumber, RoleNumber]
  /** what proves the answers it takes, for life */
  readonly proofs: Proofs
  #record: HintRecord
  #manifest: Manifest
  #directory: DirectoryHandle | undefined
  #lost = false

  constructor(parts: Pick<Hint, 'core' | 'record' | 'manifest' | 'client' | 'directory' | 'roles'>) {
    this.core = parts.core
    this.client = parts.client
    this.roles = parts.roles
    this.proofs = inCore(this.core, () => this.client.proofs)
    this.#record = parts.record
    this.#manifest = parts.manifest
    this.#directory = parts.directory
  }

  get record(): HintRecord {
    return this.#record
  }

  /** of the epoch it is at */
  get manifest(): Manifest {
    return this.#manifest
  }

  /** Where it is, to find out what comes after that. */
  get base(): Base {
    return { manifest: this.#manifest, bytes: this.#record.manifest, proofs: this.proofs }
  }

  /** undefined in a keyless database */
  get directory(): DirectoryHandle | undefined {
    return this.#directory
  }

  /** bytes of parities, M·ℓ */
  get hintBytes(): number {
    return inCore(this.core, () => this.client.hintBytes)
  }

  /** bytes of permutations, 2·Q·M */
  get permutationBytes(): number {
    return inCore(this.core, () => this.client.permutationBytes)
  }

  /** bytes of tags, 8·Q·M, or none */
  get tagBytes(): number {
    return inCore(this.core, () => this.client.tagBytes)
  }

  /** The epoch it has been brought to. The directory becomes this hint's to free; undefined: it has not changed. */
  moveTo({ manifest, bytes }: Agreed, directory: DirectoryHandle | undefined): void {
    this.#record = { ...this.#record, manifest: bytes }
    this.#manifest = manifest
    if (directory === undefined) return
    release(this.core, this.#directory)
    this.#directory = directory
  }

  /** effects and updates applied */
  get version(): number {
    return inCore(this.core, () => this.client.version)
  }

  /** Throws if this hint must not be used any more. */
  assertUsable(): void {
    if (this.#lost) throw new StorageError('the last change could not be stored; call reset(), or open() anew')
  }

  /** The store has not taken an effect that the parities have, and cannot give them back: they no longer agree. */
  lose(): void {
    this.#lost = true
  }

  /** Overwrites and frees the secrets. */
  free(): void {
    release(this.core, this.client)
    release(this.core, this.#directory)
  }
}

/** What every stored form of a hint is bound to: the hash of its manifest. */
export function bindingOf(core: Core, manifestBytes: Uint8Array): Uint8Array {
  return inCore(core, () => core.blake3(manifestBytes))
}

/** A new hint's record. Roles are drawn once for its life, at random, and bound to servers by name (S5). */
export function drawRecord(
  hintId: Uint8Array,
  manifest: Uint8Array,
  servers: ServerPair,
  random: (bytes: number) => Uint8Array,
): HintRecord {
  const [a, b] = [servers[0].name, servers[1].name]
  // A role that followed from a server's name or position would be as good, until one of them changes.
  const [retrieveServer, refreshServer] = (random(1)[0]! & 1) === 0 ? [a, b] : [b, a]
  return { hintId, retrieveServer, refreshServer, fenced: false, manifest }
}

/** Whether a state belongs to these two servers, in whatever roles. */
export function belongsTo({ retrieveServer, refreshServer }: HintRecord, servers: ServerPair): boolean {
  const names = [retrieveServer, refreshServer].sort()
  return names[0] === servers[0].name && names[1] === servers[1].name
}

export function rolesOf({ retrieveServer }: HintRecord, servers: ServerPair): readonly [RoleNumber, RoleNumber] {
  return retrieveServer === servers[0].name ? [0, 1] : [1, 0]
}

/** The way to a hint's refresh server. */
export function refreshLink({ refreshServer }: HintRecord, links: readonly [Link, Link]): Link {
  return links[0].server.name === refreshServer ? links[0] : links[1]
}

/** Runs `work` with a layout handle, and frees it. */
export function withLayout<T>(core: Core, manifest: Manifest, work: (layout: LayoutHandle) => T): T {
  const layout = inCore(core, () =>
    core.layout(manifest.records, manifest.recordBytes, manifest.partitions, manifest.partitionRecords),
  )
  try {
    return work(layout)
  } finally {
    release(core, layout)
  }
}
