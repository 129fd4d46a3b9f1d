// What a client computes for lookups, by a core that is given. Node runs it, pages of browsers, and Hermes.

import type { InstantCore } from '@keyhush/wasm/instant'

/** A database, as its manifest describes it. Bytes are hex. */
export interface Described {
  readonly layout: readonly [number, number, number, number]
  readonly commitments: string
  readonly directory: {
    readonly log: number
    readonly blockBytes: number
    readonly seed: string
    readonly commitment: string
  }
}

/** A lookup of a key, and the servers' answers to what this entropy asks for. */
export interface Recorded {
  readonly key: string
  readonly entropy: string
  readonly blocks: string
  readonly records: string
  readonly value: string
}

/** Milliseconds a lookup. */
export interface Timed {
  readonly query: number
  readonly verify: number
}

const bytesOf = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], pair => Number.parseInt(pair, 16))
const hexOf = (bytes: Uint8Array | undefined) =>
  Array.from(bytes ?? [], byte => byte.toString(16).padStart(2, '0')).join('')

/** Both steps of lookups: a query for a block of the directory and one for the record, and their verification. */
export function look(core: InstantCore, described: Described, lookups: readonly Recorded[]): Timed {
  const { log, blockBytes, seed, commitment } = described.directory
  const layout = core.layout(...described.layout)
  const shape = core.directoryShape(log, blockBytes, bytesOf(seed))
  const blocks = shape.layout
  const [commitments, ofBlocks] = [bytesOf(described.commitments), bytesOf(commitment)]
  const inputs = lookups.map(({ key, entropy, blocks, records, value }) => {
    return {
      ...{ key: bytesOf(key), entropy: bytesOf(entropy), blocks: bytesOf(blocks), records: bytesOf(records) },
      value,
    }
  })
  const begun = performance.now()
  const asked = inputs.map(({ key, entropy }) => {
    const print = core.fingerprint(key)
    const query = core.newInstantQuery(blocks, Uint32Array.of(shape.number(print)), entropy)
    return { print, query, requests: [query.request(0), query.request(1)] }
  })
  const between = performance.now()
  const indices = asked.map(({ print, query }, i) => {
    const block = query.recon(ofBlocks, inputs[i]!.blocks)
    if (block === undefined) throw new Error('expected an answer to be genuine')
    return shape.index(block, print, described.layout[0])
  })
  const verified = performance.now()
  const queries = indices.map((index, i) => {
    const query = core.newInstantQuery(layout, Uint32Array.of(index), inputs[i]!.entropy)
    return { query, requests: [query.request(0), query.request(1)] }
  })
  const asking = performance.now()
  const found = queries.map(({ query }, i) => query.recon(commitments, inputs[i]!.records))
  const end = performance.now()
  for (const { query } of [...asked, ...queries]) query.free()
  for (const handle of [blocks, shape, layout]) handle.free()
  found.forEach((record, i) => {
    if (hexOf(record) !== inputs[i]!.value) throw new Error('expected the record that is asked for')
  })
  const each = (ms: number) => ms / lookups.length
  return { query: each(between - begun + asking - verified), verify: each(verified - between + end - asking) }
}
