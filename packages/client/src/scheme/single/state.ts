// Hints, backups and tags, and at most one pending batch of queries: a lookup uses a hint up and puts a backup in its place.

import {
  decodeParities,
  encodeParityQuery,
  type Manifest,
  parityAnswerBytes,
  toHex,
  WireError,
} from '@keyhush/protocol'
import type { LayoutHandle, SingleHandle } from '@keyhush/wasm/client'
import { StorageError } from '../../base/errors.js'
import { CoreState } from '../core-state.js'
import { goSteps } from '../download.js'
import type { Batch, Brought, Rows, Sizes, Update, Verdict } from '../scheme.js'
import { follows, sizesOf } from './core.js'
import { namedRow, namesIn } from './rows.js'

export class SingleState extends CoreState<SingleHandle> {
  /** It keeps tags of all records. */
  readonly recognises = true

  get sizes(): Sizes {
    return this.inCore(({ hintBytes, tagBytes }) => ({ hints: hintBytes, tags: tagBytes }))
  }

  get lookups(): number {
    return this.inCore(handle => handle.lookups)
  }

  get lookupsLeft(): number {
    return this.inCore(handle => handle.left)
  }

  maxBatch(manifest: Manifest): number {
    return Math.min(sizesOf(this.context.core, manifest).maxBatch, this.lookups)
  }

  /** However many lookups they were made for: it is not worth making them anew. */
  suits(): boolean {
    return true
  }

  follows(before: Manifest, next: Manifest): boolean {
    return follows(this.context.core, before, next)
  }

  batch(manifest: Manifest): Batch {
    const count = this.pending
    const queries = this.inCore(handle => handle.request())
    return {
      asks: [
        {
          path: '/v1/answer',
          body: encoded(manifest, count, queries),
          replyBytes: parityAnswerBytes(manifest, count),
        },
      ],
      // Both parities of all queries, before anything of them is used: whether a lie in one that is of no use would be noticed
      // depends on what was asked.
      accept: (_party, reply): Verdict => {
        const parities = decodeParities(manifest, count, reply)
        return this.inCore(handle => handle.verify(parities)) ? 'genuine' : 'forged'
      },
    }
  }

  override finish(): Brought {
    const brought = super.finish()
    return { ...brought, missed: this.inCore(handle => handle.missed) }
  }

  update({ list }: Update, after: LayoutHandle): Uint8Array {
    return this.inCore(handle => handle.update(list, after))
  }

  step(): boolean {
    return this.inCore(handle => handle.step())
  }

  /** Where tags are kept in rows, one for each query, however many are of one stripe, and whether a hint was found or not. */
  provide(rows: Rows): Promise<void> | undefined {
    const wanted = namesIn(this.inCore(handle => handle.wants()))
    return wanted.length === 0 ? undefined : this.#hold(wanted, rows)
  }

  async #hold(wanted: readonly string[], rows: Rows): Promise<void> {
    for (const name of wanted) {
      const row = await rows.read(name)
      this.readBack(handle => handle.hold(row))
    }
  }

  get rows(): readonly string[] | undefined {
    const names = namesIn(this.inCore(handle => handle.rows()))
    return names.length === 0 ? undefined : names
  }

  override async checkpoint(binding: Uint8Array, rows?: Rows): Promise<Uint8Array> {
    await goSteps(this.context, this)
    if (rows !== undefined) await this.#renew(rows)
    return await super.checkpoint(binding)
  }

  /** Has rows made anew with what updates have changed. One that was kept is the state's from then on, whatever comes after. */
  async #renew(rows: Rows): Promise<void> {
    for (let begun = false; ; begun = true) {
      const [stale] = namesIn(this.inCore(handle => handle.stale(begun)))
      if (stale === undefined) return
      const row = await rows.read(stale)
      const { name, bytes } = namedRow(this.readBack(handle => handle.renewed(row)))
      await rows.put(toHex(name), bytes)
      this.inCore(handle => handle.renew())
      await this.context.environment.pause()
    }
  }

  /** Its tags are its own: it is bound to no commitments. */
  arrive(): void {}
}

function encoded(...query: Parameters<typeof encodeParityQuery>): Uint8Array {
  try {
    return encodeParityQuery(...query)
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause
    throw new StorageError('the pending lookup is none that this database answers; call reset()', { cause })
  }
}
