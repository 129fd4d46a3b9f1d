// A filter in memory (docs/protocol.md, Slot marks): the key directory and the marks of one epoch, both checked by their hashes in its
// manifest. Nothing here is secret.

import { equalBytes, type Manifest, slotMark, updateEntries } from '@keyhush/protocol'
import type { Core, DirectoryHandle } from '@keyhush/wasm/client'
import { Directory, hasher, layoutOf } from '@keyhush/wasm/script-directory'
import type { KeyIndex } from '../lookup/question.js'
import { inCore } from '../platform/core.js'
import type { Environment } from '../platform/environment.js'
import type { Agreed } from '../servers/manifests.js'
import type { Step } from '../servers/update-lists.js'

export interface Working extends Pick<Environment, 'pause'> {
  readonly core: Core
}

/** JavaScript hashes so many in a few milliseconds, WebAssembly a hundred times as many. */
const SLICE_BYTES = 32 * 1024

/** Whether bytes have this hash. Another task gets its turn in between. */
export async function hasHash({ core, pause }: Working, bytes: Uint8Array, hash: Uint8Array): Promise<boolean> {
  await pause()
  if (core.kind === 'wasm')
    return equalBytes(
      inCore(core, () => core.blake3(bytes)),
      hash,
    )
  const hashing = hasher()
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) {
    hashing.update(bytes.subarray(at, at + SLICE_BYTES))
    await pause()
  }
  return equalBytes(hashing.digest(), hash)
}

export class HeldFilter implements KeyIndex {
  readonly at: Agreed
  readonly marks: Uint8Array
  readonly #directory: Pick<DirectoryHandle, 'index' | 'encode' | 'updated'>

  private constructor(at: Agreed, marks: Uint8Array, directory: Pick<DirectoryHandle, 'index' | 'encode' | 'updated'>) {
    this.at = at
    this.marks = marks
    this.#directory = directory
  }

  /** Of bytes whose hashes are right. A text: why the directory is none of this manifest. */
  static async read(
    { pause }: Pick<Working, 'pause'>,
    at: Agreed,
    directory: Uint8Array,
    marks: Uint8Array,
  ): Promise<HeldFilter | string> {
    const { records, directoryBlockLog, directoryBlockBytes, directorySeed } = at.manifest
    try {
      const reading = Directory.reading(directory, records)
      for (;;) {
        const { done, value } = reading.next()
        if (!done) await pause()
        else if (!value.isShaped(directoryBlockLog, directoryBlockBytes, directorySeed)) return 'of another shape'
        else return new HeldFilter(at, marks, value as Directory & DirectoryHandle)
      }
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'directory') throw error
      return (error as Error).message
    }
  }

  /** The filter after these epochs. Undefined: their lists do not lead to what the last manifest says. */
  async after(steps: readonly Step[], working: Working): Promise<HeldFilter | undefined> {
    const last = steps.at(-1)
    if (last === undefined) return this
    const marks = new Uint8Array(last.manifest.records)
    marks.set(this.marks)
    let directory = this.#directory
    try {
      let before: Manifest = this.at.manifest
      for (const { manifest, list } of steps) {
        directory = directory.updated(list, layoutFor(before), layoutFor(manifest))
        for (const { index, kind, delta } of updateEntries(list, manifest.recordBytes)) {
          if (kind !== 'edit') marks[index] = kind === 'add' ? slotMark(delta) : 0
        }
        before = manifest
        await working.pause()
      }
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'update') throw error
      return undefined
    }
    const { directoryHash, slotMarksHash } = last.manifest
    const isRight =
      slotMarksHash !== undefined &&
      (await hasHash(working, marks, slotMarksHash)) &&
      (await hasHash(working, directory.encode(), directoryHash))
    return isRight ? new HeldFilter(last, marks, directory) : undefined
  }

  /** The same, with a signature that has come. */
  signedAs(at: Agreed): HeldFilter {
    return new HeldFilter(at, this.marks, this.#directory)
  }

  /** Whether a key with this fingerprint is proved absent. */
  excludes(fingerprint: Uint8Array): boolean {
    return this.marks[this.index(fingerprint)] !== slotMark(fingerprint)
  }

  index(fingerprint: Uint8Array): number {
    return this.#directory.index(fingerprint, this.at.manifest.records)
  }

  /** The directory's bytes. */
  encode(): Uint8Array {
    return this.#directory.encode()
  }

  get bytes(): number {
    return this.at.manifest.directoryBytes + this.marks.length
  }
}

function layoutFor({ records, recordBytes, partitions, partitionRecords, blockRecords }: Manifest) {
  return layoutOf(records, recordBytes, partitions, partitionRecords, blockRecords)
}
