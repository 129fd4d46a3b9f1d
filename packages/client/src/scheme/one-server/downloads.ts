// What lookups with one server need of an epoch: the public hint of its base, and its patch. Both are downloaded, hashed and decoded
// whole before the first lookup, and kept for the next epoch: the same base has the same hint, and a patch only grows at its end.

import { baseOf, equalBytes, type Manifest, type OneServerFields, toHex, WireError } from '@keyhush/protocol'
import { concatenated } from '../../base/bytes.js'
import { UNREADY_MS } from '../../base/constants.js'
import { ProtocolError, ServerError, TamperedError } from '../../base/errors.js'
import { inCore } from '../../platform/core.js'
import { askOne } from '../../servers/ask.js'
import type { Agreed } from '../../servers/manifests.js'
import { getWholeBlob, type Link } from '../../servers/transport.js'
import type { Equipment, SchemeContext } from '../scheme.js'
import { Patched } from './patched.js'

/** What was downloaded for the last epoch, or is on its way, is kept for the next. */
export class Downloads {
  #hint: { readonly hash: Uint8Array; readonly bytes: Promise<Uint8Array> } | undefined
  #patch: { readonly of: OneServerFields; readonly bytes: Uint8Array } | undefined
  /** the patches that are on their way, one after the other: each may begin the next */
  #patches: Promise<unknown> = Promise.resolve()

  /**
   * Resolves when hint and patch are those that the publisher has signed. `hintBytes`: of the public hint; no patch is longer. Throws
   * ProtocolError for a malformed patch.
   */
  async equip(
    context: SchemeContext,
    { manifest, bytes }: Agreed,
    hintBytes: number,
    link: Link,
    signal: AbortSignal,
  ): Promise<Equipment> {
    const { core } = context
    const { patchBytes } = manifest.oneServer!
    if (patchBytes > hintBytes)
      throw malformedPatch(link, `expected a patch of at most ${hintBytes} bytes, got one of ${patchBytes}`)
    const coming = this.#patches.then(() => this.#patchOf(context, manifest, link, signal))
    this.#patches = coming.catch(() => {})
    const [hint, patch] = await Promise.all([this.#hintOf(context, manifest, hintBytes, link, signal), coming])
    const changes = readPatch(link, manifest, patch)
    return { base: baseOf(manifest), hint, manifestHash: inCore(core, () => core.blake3(bytes)), changes }
  }

  #hintOf(
    context: SchemeContext,
    { oneServer }: Manifest,
    length: number,
    link: Link,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { hintHash: hash } = oneServer!
    if (this.#hint && equalBytes(this.#hint.hash, hash)) return this.#hint.bytes
    const bytes = signedBlob(context, hash, length, 'public hint', link, signal)
    const hint = { hash, bytes }
    this.#hint = hint
    bytes.catch(() => {
      if (this.#hint === hint) this.#hint = undefined
    })
    return bytes
  }

  /** Only what has been added, if this has the beginning; if that does not lead to the signed one, all of it, once. */
  async #patchOf(
    context: SchemeContext,
    { oneServer }: Manifest,
    link: Link,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const of = oneServer!
    const { patchBytes, patchHash } = of
    if (patchBytes === 0) return new Uint8Array()
    const before = this.#patch
    if (before && equalBytes(before.of.patchHash, patchHash)) return before.bytes
    const kept = before && isBeginningOf(before.of, of) ? before.bytes : undefined
    const get = (begin?: Uint8Array) => signedBlob(context, patchHash, patchBytes, 'patch', link, signal, begin)
    const whole = (error: unknown) => {
      if (signal.aborted || !(error instanceof ServerError)) throw error
      return get()
    }
    const bytes = await (kept ? get(kept).catch(whole) : get())
    this.#patch = { of, bytes }
    return bytes
  }
}

/** Whether the patch of `before` may begin that of `now`. */
function isBeginningOf(before: OneServerFields, now: OneServerFields): boolean {
  const isSameBase = before.baseEpoch === now.baseEpoch && equalBytes(before.hintHash, now.hintHash)
  return isSameBase && before.patchBytes < now.patchBytes
}

/** A blob of the hash that the publisher has signed; `begin`: its first bytes, which are not downloaded. Throws TamperedError. */
async function signedBlob(
  { core }: SchemeContext,
  hash: Uint8Array,
  length: number,
  what: string,
  link: Link,
  signal: AbortSignal,
  begin: Uint8Array = new Uint8Array(),
): Promise<Uint8Array> {
  const from = begin.length
  // An end is asked for once: the whole takes its place, also where a proxy or an old browser does not let a Range pass.
  const asking = from > 0 ? { once: true } : { unreadyMs: UNREADY_MS }
  const rest = await askOne([link], asking, signal, (link, signal, told) =>
    getWholeBlob(link, toHex(hash), length - from, signal, told, from),
  )
  const bytes = concatenated([begin, rest])
  const came = inCore(core, () => core.blake3(bytes))
  if (equalBytes(came, hash)) return bytes
  const expected = `expected the ${what} that the publisher has signed, got another`
  throw new TamperedError(link.server.name, `${expected}; use another server, and tell its operator`)
}

function readPatch(link: Link, manifest: Manifest, patch: Uint8Array): Patched {
  try {
    return new Patched(manifest, manifest.oneServer!.baseRecords, patch)
  } catch (error) {
    if (!(error instanceof WireError)) throw error
    throw malformedPatch(link, 'expected a patch of well-formed entries, got a malformed one')
  }
}

/** The servers give what the publisher has signed. */
function malformedPatch({ server }: Link, what: string): ProtocolError {
  return new ProtocolError(server.name, `${what}; ask the publisher, who has signed it`)
}
