// Mode `single` with tags in rows of the store, a stripe each. Large databases have rows (rust-core/core/src/single/geometry.rs); here
// small ones, too.

import { MemoryStore, StateUnreadableError } from '../../src/testing.js'
import { core, sameOnBoth } from './harness.js'
import { edit, Living } from './living.js'
import { A } from './network.js'
import { records, type Setting, World } from './world.js'

const inRows: typeof core = {
  ...core,
  journalLimit: () => 6000, // bytes of a journal that are worth a checkpoint
  newSingleBuilder: (layout, hashes, entropy, lookups) => core.newSingleBuilder(layout, hashes, entropy, lookups, true),
}
export const loadCore = async () => inRows
export const options = { servers: [A], integrity: 'server', mode: 'single', lookups: 200, storage: 'required' } as const

/** A disk that knows each row and its hint, can lose rows, and can give others in their place. */
export class Rows extends MemoryStore {
  /** all rows there have been, by name */
  readonly all = new Map<string, { readonly hintId: Uint8Array; readonly row: Uint8Array }>()
  readonly lost = new Set<string>()
  /** what is read in place of one */
  instead: ((row: Uint8Array) => Uint8Array) | undefined

  constructor() {
    super({ durable: true })
  }

  override async putRow(hintId: Uint8Array, name: string, row: Uint8Array): Promise<void> {
    await super.putRow(hintId, name, row)
    this.all.set(name, { hintId: hintId.slice(), row: row.slice() })
  }

  override async readHint(hintId: Uint8Array) {
    const hint = await super.readHint(hintId)
    return { ...hint, rows: hint.rows.filter(name => !this.lost.has(name)) }
  }

  override async readRow(hintId: Uint8Array, name: string, since: number | undefined): Promise<Uint8Array> {
    if (this.lost.has(name)) throw new StateUnreadableError('a stored row is lost')
    const row = await super.readRow(hintId, name, since)
    return this.instead?.(row) ?? row
  }

  /** Number of rows of hints that are not stored, or no longer. */
  async strays(): Promise<number> {
    const { record } = (await this.read())!
    const none = new Uint8Array()
    let strays = 0
    for (const [name, { hintId }] of this.all) {
      if (Buffer.compare(hintId, record.hintId) === 0) continue
      // A hint may begin only if all its rows are there.
      const begun = this.copy().begin({ ...record, hintId }, none, none, record.hintId, [name])
      await begun.then(
        () => strays++,
        () => {},
      )
    }
    return strays
  }
}

/** A world whose database changes, and whose maps have rows. */
export function worldInRows(setting: Setting = {}) {
  const living = new Living(sameOnBoth(records), records)
  const disk = new Rows()
  return { living, disk, world: new World({ living, disk, ...setting }) }
}

/** Another tab, and its map. */
export async function anotherIn(world: World, wishes: object = {}) {
  const life = world.life({ loadCore })
  return { life, map: await life.open({ ...options, ...wishes }) }
}

/** Such a world with one tab, and its map. */
export async function openedInRows(wishes: object = {}) {
  const there = worldInRows()
  return { ...there, ...(await anotherIn(there.world, wishes)) }
}

/** A batch that touches many rows. */
export const many = (round: number) =>
  Array.from({ length: 150 }, (_, i) => edit((i * 37 + round) % 1000, `round ${round % 10}x`))
