// A hint: a scheme's state and what belongs to it. Its id and its parties stay for life; its manifest and directory change
// with the epoch. Nothing of one hint is ever used for another.

import type { Manifest } from '@keyhush/protocol'
import type { Core, DirectoryHandle } from '@keyhush/wasm/client'
import { randomBelow } from '../base/random.js'
import { inCore, release } from '../platform/core.js'
import type { Preparation, SchemeState, StatefulScheme } from '../scheme/scheme.js'
import type { Agreed } from '../servers/manifests.js'
import type { Servers } from '../servers/parties.js'
import type { Base } from '../servers/path.js'
import type { Links } from '../servers/transport.js'
import type { HintRecord } from '../store/store.js'

export class Hint {
  readonly core: Core
  readonly scheme: StatefulScheme
  readonly state: SchemeState
  #record: HintRecord
  #manifest: Manifest
  #directory: DirectoryHandle | undefined
  /** the version of the newest checkpoint that was read or written */
  checkpointVersion: number
  /** what verifies its answers, as stored (verifier.ts) */
  keptVerifier: Uint8Array | undefined

  constructor(
    parts: Pick<Hint, 'core' | 'scheme' | 'state' | 'record' | 'manifest' | 'directory' | 'checkpointVersion'>,
  ) {
    this.core = parts.core
    this.scheme = parts.scheme
    this.state = parts.state
    this.#record = parts.record
    this.#manifest = parts.manifest
    this.#directory = parts.directory
    this.checkpointVersion = parts.checkpointVersion
  }

  get record(): HintRecord {
    return this.#record
  }

  /** of the epoch it is at */
  get manifest(): Manifest {
    return this.#manifest
  }

  /** Its epoch, to ask what comes after it. */
  get base(): Base {
    const { manifest: bytes, signature } = this.#record
    return baseOf(this.state, { manifest: this.#manifest, bytes, signature })
  }

  /** Most queries of a lookup. */
  get maxQueries(): number {
    return this.state.maxQueries?.(this.#manifest) ?? this.#manifest.maxQueries
  }

  /** undefined in a keyless database */
  get directory(): DirectoryHandle | undefined {
    return this.#directory
  }

  /** effects and updates applied */
  get version(): number {
    return this.state.version
  }

  /** Whether a lookup awaits its answers. */
  get isPending(): boolean {
    return this.state.kind === 'asked' && this.state.pending > 0
  }

  /** Sets its epoch. This hint frees the directory from now on; undefined: the directory has not changed. */
  moveTo({ manifest, bytes, signature }: Agreed, directory: DirectoryHandle | undefined): void {
    this.#record = { ...this.#record, manifest: bytes, signature }
    this.#manifest = manifest
    if (directory === undefined) return
    release(this.core, this.#directory)
    this.#directory = directory
  }

  /** Overwrites and frees the secrets. */
  free(): void {
    this.state.free()
    release(this.core, this.#directory)
  }
}

/** The epoch of what follows updates. */
export function baseOf(followed: SchemeState | Preparation, at: Agreed): Base {
  return { ...at, follows: (before, next) => followed.follows?.(before, next) ?? true }
}

/** What every stored form of a hint is bound to: the hash of its manifest. */
export function bindingOf(core: Core, manifestBytes: Uint8Array): Uint8Array {
  return inCore(core, () => core.blake3(manifestBytes))
}

/** A new hint's record. Which server is which party is drawn at random, once for its life, and bound by name (S5). */
export function drawRecord(
  scheme: StatefulScheme,
  hintId: Uint8Array,
  manifest: Uint8Array,
  servers: Servers,
  random: (bytes: number) => Uint8Array,
): HintRecord {
  const names = servers.map(({ name }) => name)
  // Roles by the servers' names or order would do too, until one of them changes.
  const first = scheme.parties.length > 0 ? randomBelow(names.length, random) : 0
  const drawn = [...names.slice(first), ...names.slice(0, first)]
  return { hintId, scheme: scheme.name, parties: drawn.slice(0, scheme.parties.length), fenced: [], manifest }
}

/** Whether a state's parties are among these servers, in any order. */
export function belongsTo({ parties }: HintRecord, servers: Servers): boolean {
  const known = parties.filter(party => servers.some(({ name }) => name === party))
  return known.length === parties.length && new Set(parties).size === parties.length
}

/** The links to a hint's parties, in their order. */
export function partiesOf({ parties }: HintRecord, links: Links): Links {
  return parties.map(party => links.find(({ server }) => server.name === party)!)
}

/** The links to a hint's parties. A single party learns nothing from its query, so any other server may take its place. */
export function waysOf({ parties }: StatefulScheme, record: HintRecord, links: Links): readonly Links[] {
  const own = partiesOf(record, links)
  if (parties.length !== 1) return [own]
  return [own, ...links.filter(link => !own.includes(link)).map(link => [link])]
}

/** The links to the servers whose fences count: the party's, and those that may take its place. Empty if none is needed. */
export function fenceLinks(scheme: StatefulScheme, record: HintRecord, links: Links): Links {
  const { fencedBy } = scheme
  return fencedBy === undefined ? [] : waysOf(scheme, record, links).map(parties => parties[fencedBy]!)
}

/** The links whose fences know the hint. */
export function knowingFences(scheme: StatefulScheme, record: HintRecord, links: Links): Links {
  return fenceLinks(scheme, record, links).filter(({ server }) => record.fenced.includes(server.name))
}
