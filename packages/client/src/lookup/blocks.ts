// Keys found without the directory, by the blocks of it that were looked up for this one lookup. Blocks are used once and
// forgotten (P4): a client that kept them would show, by not asking, that two keys are in the same block.

import type { Manifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm/client'
import { ProtocolError } from '../base/errors.js'
import { coreCode, inCore } from '../platform/core.js'
import { withDirectoryShape } from '../platform/layout.js'
import type { KeyIndex } from './question.js'

export class FetchedBlocks implements KeyIndex {
  readonly #core: Core
  readonly #manifest: Manifest
  readonly #numbers: Uint32Array
  readonly #bytes: Uint8Array
  #malformed = false

  /** `bytes`: the blocks of these numbers, one after the other, verified. */
  constructor(core: Core, manifest: Manifest, numbers: Uint32Array, bytes: Uint8Array) {
    this.#core = core
    this.#manifest = manifest
    this.#numbers = numbers
    this.#bytes = bytes
  }

  /** Of a fingerprint whose block was fetched. A malformed block leads to record 0, so that a record is asked for all the same. */
  index(fingerprint: Uint8Array): number {
    return withDirectoryShape(this.#core, this.#manifest, shape => {
      const { directoryBlockBytes: length, directoryBlockLog, records, shards = 1 } = this.#manifest
      const number = inCore(this.#core, () => shape.number(fingerprint, shards))
      const at = this.#numbers.indexOf(number)
      const each = records / shards
      try {
        const index = inCore(this.#core, () =>
          shape.index(this.#bytes.subarray(at * length, (at + 1) * length), fingerprint, each),
        )
        return (number >> directoryBlockLog) * each + index // of its shard
      } catch (error) {
        if (coreCode(error) !== 'directory') throw error
        this.#malformed = true
        return 0
      }
    })
  }

  /** To be called when the records are in: an earlier error would change the traffic, and so depend on the keys. */
  assertWellFormed(): void {
    if (!this.#malformed) return
    throw new ProtocolError(
      'the servers',
      'expected a well-formed key directory, got a malformed one; ask their operators',
    )
  }
}
