// The state of mode `single`: hints, backups, tags and at most one pending lookup. A lookup replaces a used hint by a backup.

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
import type { Brought, Requests, Rows, Sizes, Update, Verdict } from '../scheme.js'
import { follows, sizesOf } from './core.js'
import { namedRow, namesIn } from './rows.js'

export class SingleState extends CoreState<SingleHandle> {
  /** It has tags of all records. */
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

  maxQueries(manifest: Manifest): number {
    return Math.min(sizesOf(this.context.core, manifest).maxQueries, this.lookups)
  }

  /** Also with another number of lookups: making new hints is not worth it. */
  suits(): boolean {
    return true
  }

  follows(before: Manifest, next: Manifest): boolean {
    return follows(this.context.core, before, next)
  }

  requests(manifest: Manifest): Requests {
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
      // Verifies both parities of all queries, also the unused one: else it would depend on the question whether a lie is noticed.
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

  /** One row for each query, if tags are kept in rows: also for queries of one stripe, and for one without a hint. */
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
  arrive(): undefined {}
}

function encoded(...query: Parameters<typeof encodeParityQuery>): Uint8Array {
  try {
    return encodeParityQuery(...query)
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause
    throw new StorageError('expected a stored lookup of this database, got one of another; call reset()', { cause })
  }
}
