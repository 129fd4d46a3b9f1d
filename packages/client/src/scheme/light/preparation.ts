// A light hint in the making. Everything of it is in memory alone until both replies have passed every check (L2, L3); its
// secrets go with the attempt, whatever comes of it (L4).

import {
  checkLightReply,
  type EntryProofs,
  encodeLightRequest,
  HEADER_BYTES,
  type LightPart,
  lightPath,
  lightReplyBytes,
  type Manifest,
  type Proofs,
} from '@keyhush/protocol'
import type { ClientHandle, Core, LightAttemptHandle, LightInquiryHandle } from '@keyhush/wasm/client'
import { together } from '../../base/abort.js'
import { ATTEMPTS, computingSilenceMs } from '../../base/constants.js'
import { ServerError, TamperedError, VersionError } from '../../base/errors.js'
import { counted } from '../../base/progress.js'
import { hintsOf, inCore, release } from '../../platform/core.js'
import { withLayout } from '../../platform/layout.js'
import { fromWire } from '../../servers/manifests.js'
import { withRetry } from '../../servers/retry.js'
import { type Link, postSecret } from '../../servers/transport.js'
import { costsOf } from '../costs.js'
import { databaseBytes } from '../download.js'
import { GivenUpError, type Inquiry } from '../giving-up.js'
import { HintState, REFRESH, suitsHint } from '../hint-state.js'
import type { Preparation, SchemeContext, SchemeOptions, SchemeState, Sources, Update } from '../scheme.js'
import { makeRoom } from '../stored-form.js'
import { Verifier, verifierBytes } from '../verifier.js'
import { chooseProofs, madeAs } from './proofs.js'

/** What each party is asked for, by its number: the retrieve server for tags, the refresh server for the hint (L1). */
const PARTS = ['tags', 'hint'] as const
const ROOT_BYTES = 32

export class LightPreparation implements Preparation {
  readonly #context: SchemeContext
  #manifest: Manifest
  /** accepted */
  #client: ClientHandle | undefined
  /** with Pointproofs, until it is the hint's */
  #verifier: Verifier | undefined
  #attempts = 0
  readonly resumable = false

  constructor(context: SchemeContext, manifest: Manifest) {
    this.#context = context
    this.#manifest = manifest
  }

  /** Of an accepted hint alone: each attempt has its own. */
  get id(): Uint8Array {
    const client = this.#client
    return client === undefined ? new Uint8Array(16) : inCore(this.#context.core, () => client.hintId)
  }

  suits(options: SchemeOptions): boolean {
    return suitsHint(this.#proofs, this.#manifest, options)
  }

  /** of its manifest */
  get #proofs(): Proofs {
    const { core, options } = this.#context
    return chooseProofs(core, this.#manifest, options)
  }

  /** Nothing is shown to anybody before what verifies the hint's answers is there: it has nothing to do with what is asked. */
  async fetch(sources: Sources, signal: AbortSignal): Promise<void> {
    if (this.#proofs === 'pointproofs') {
      this.#verifier ??= new Verifier(this.#context)
      const equipped = this.#verifier.equip(this.#manifest, sources, signal)
      if (equipped !== undefined) await equipped
      else sources.received(verifierBytes(this.#manifest))
    }
    if (this.#client !== undefined) return
    const attempt = this.#begin()
    try {
      await this.#ask(attempt, sources, signal)
      await this.#context.environment.pause()
      await this.#check(attempt, sources, signal)
    } finally {
      release(this.#context.core, attempt)
    }
  }

  /** Under a root of its own, which nothing else is drawn from and which never comes again. */
  #begin(): LightAttemptHandle {
    const { core, environment } = this.#context
    const proofs = this.#proofs
    this.#attempts += 1
    const root = environment.random(ROOT_BYTES)
    try {
      return withLayout(core, this.#manifest, layout =>
        inCore(core, () => hintsOf(core).newLightAttempt(layout, this.#manifest.commitments, root, proofs)),
      )
    } finally {
      root.fill(0)
    }
  }

  /** Both requests leave in one tick, in the order of the servers' names, which says nothing of their roles (P2). */
  async #ask(
    attempt: LightAttemptHandle,
    { parties, servers, failures, received }: Sources,
    signal: AbortSignal,
  ): Promise<void> {
    const { core } = this.#context
    const manifest = this.#manifest
    const proofs = madeAs(this.#proofs)
    const secrets = inCore(core, () => [attempt.tagsRequest(), attempt.paritiesRequest()] as const)
    const bodies = PARTS.map((part, party) => encodeLightRequest(part, manifest, secrets[party]!, proofs))
    const asks = PARTS.map((part, party) => ({ part, party, link: parties[party]!, body: bodies[party]! }))
    asks.sort((a, b) => (a.link.server.name < b.link.server.name ? -1 : 1))
    const ask = async ({ part, party, link, body }: (typeof asks)[number], signal: AbortSignal) => {
      try {
        await withRetry(link, signal, () => {
          const room = roomFor(core, attempt, party)
          return receive(link, manifest, { part, proofs, body }, room, received, signal)
        })
      } catch (error) {
        // That a server has moved on is nobody's fault.
        const turned = error instanceof VersionError && error.newest !== undefined
        if (!turned) failures.note(servers.indexOf(link), error, signal)
        throw error
      }
    }
    try {
      await together(
        signal,
        asks.map(one => signal => ask(one, signal)),
      )
    } catch (error) {
      if (error instanceof ServerError && this.#attempts === ATTEMPTS) throw new GivenUpError(error)
      throw error
    } finally {
      for (const secret of [...secrets, ...bodies]) secret.fill(0)
    }
  }

  /**
   * All checks, whatever the first of them says; on one copy of what was replied. Partition by partition, so that the page
   * gets its thread back in between: all take 80 ms at 2^20 records, and a second at 2^24.
   */
  async #check(
    attempt: LightAttemptHandle,
    { parties, servers, failures }: Sources,
    signal: AbortSignal,
  ): Promise<void> {
    const { core, environment } = this.#context
    await makeRoom(this.#context, costsOf(core, this.#manifest, 'light', this.#proofs).held)
    while (inCore(core, () => attempt.check())) await environment.pause()
    const outcome = inCore(core, () => attempt.finish())
    try {
      this.#client = inCore(core, () => outcome.takeHint())
      if (this.#client !== undefined) return
      const inquiry = inCore(core, () => outcome.takeInquiry())!
      const names = parties.map(({ server }) => server.name)
      if (!inCore(core, () => inquiry.blamesRefreshServer)) {
        throw new GivenUpError(undefined, this.#inquiry(inquiry, names))
      }
      release(core, inquiry)
      const error = new TamperedError(names[REFRESH]!, 'the hint it made is not of the database both servers agreed on')
      failures.note(servers.indexOf(parties[REFRESH]!), error, signal)
      throw new GivenUpError(error)
    } finally {
      release(core, outcome)
    }
  }

  #inquiry(handle: LightInquiryHandle, names: readonly string[]): Inquiry {
    const { core } = this.#context
    return {
      epoch: this.#manifest.epoch,
      take: (partition, bytes) => inCore(core, () => handle.take(partition, bytes)),
      liars: () => Array.from(inCore(core, () => handle.liars()) ?? [], party => names[party]!),
      free: () => release(core, handle),
    }
  }

  /** Replies are of one epoch: at the next all begins anew, under another root. */
  update(update: Update): void {
    this.#dropClient()
    this.#verifier?.follow(update)
    this.#manifest = update.manifest
  }

  partial(): never {
    throw new Error('a light hint is not stored before it is whole')
  }

  finish(): SchemeState {
    const [client, verifier] = [this.#client!, this.#verifier]
    this.#client = undefined
    this.#verifier = undefined
    return new HintState(this.#context, client, this.#manifest, verifier)
  }

  #dropClient(): void {
    release(this.#context.core, this.#client)
    this.#client = undefined
  }

  free(): void {
    this.#dropClient()
    this.#verifier?.free()
    this.#verifier = undefined
  }
}

/** Where the body of a party's reply goes, piece by piece: into the core's memory, and nowhere else. */
function roomFor(core: Core, attempt: LightAttemptHandle, party: number): (piece: Uint8Array, at: number) => void {
  // A fresh view each time: the memory moves when it grows.
  return (piece, at) =>
    inCore(core, () => {
      const pointer = attempt.replyPointer(party, at + piece.length)
      new Uint8Array(core.memory.buffer, pointer + at, piece.length).set(piece)
    })
}

async function receive(
  link: Link,
  manifest: Manifest,
  { part, proofs, body }: { readonly part: LightPart; readonly proofs: EntryProofs; readonly body: Uint8Array },
  room: (piece: Uint8Array, at: number) => void,
  told: (bytes: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const header = new Uint8Array(HEADER_BYTES)
  await counted(told, async received => {
    let at = 0
    const take = (chunk: Uint8Array) => {
      const ofHeader = chunk.subarray(0, Math.max(0, HEADER_BYTES - at))
      if (ofHeader.length > 0) header.set(ofHeader, at)
      room(chunk.subarray(ofHeader.length), at + ofHeader.length - HEADER_BYTES)
      at += chunk.length
      received(chunk.length)
    }
    const silenceMs = computingSilenceMs(databaseBytes(manifest))
    await postSecret(link, lightPath(part), body, lightReplyBytes(part, manifest, proofs), silenceMs, take, signal)
    fromWire(link, () => checkLightReply(part, manifest, header, proofs))
  })
}
