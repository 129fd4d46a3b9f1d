// The store's contract (packages/client/src/store/store.ts) as the model has it: the head after each write, and whether the write
// should be accepted.

import type { StateStore } from '@keyhush/client/environment'

/** Methods that change what is stored. What a power loss may undo follows from docs/threat-model.md, S1 and S2. */
export const DURABILITY = {
  begin: 'strict',
  putRow: 'relaxed',
  sweepRows: 'relaxed',
  putPartial: 'relaxed',
  updatePartial: 'strict',
  complete: 'strict',
  putPending: 'strict',
  commit: 'relaxed',
  advance: 'relaxed',
  putCheckpoint: 'relaxed',
  putVerifier: 'relaxed',
  condemn: 'strict',
  discard: 'strict',
  erase: 'strict',
} as const

export type WriteMethod = keyof typeof DURABILITY

export type Write = { [M in WriteMethod]: { method: M; parameters: Parameters<StateStore[M]> } }[WriteMethod]

export function isWrite(method: string): method is WriteMethod {
  return method in DURABILITY
}

export function isStrict({ method }: Write): boolean {
  return DURABILITY[method] === 'strict'
}

export interface Head {
  /** in hex */
  readonly hint: string
  /** of the epoch the state is at, in hex */
  readonly manifest: string
  readonly stage: 'partial' | 'whole'
  readonly version: number
  readonly pending: Uint8Array | undefined
  readonly condemned: boolean
}

/** The head after a write. Throws if the store should refuse it. `torn`: the state is unreadable. */
export function after(head: Head | undefined, { method, parameters }: Write, torn: boolean): Head | undefined {
  if (method === 'erase') return undefined
  if (method === 'putRow' || method === 'sweepRows') return head
  const named = hintNamedBy({ method, parameters } as Write)
  if (method === 'begin') {
    const replaced = torn ? undefined : head?.hint
    if (named !== replaced) throw new Error(`begin replaces ${named}, but ${replaced} was stored`)
    const [hint, manifest] = [hexOf(parameters[0].hintId), hexOf(parameters[0].manifest)]
    return { hint, manifest, stage: 'partial', version: 0, pending: undefined, condemned: false }
  }
  if (method === 'condemn') return head?.hint === named ? { ...head!, pending: undefined, condemned: true } : head
  if (method === 'discard') {
    if (head?.condemned && !torn) throw new Error('a condemned state was discarded')
    if (head !== undefined && !(torn && named === undefined) && head.hint !== named) {
      throw new Error(`discard names ${named}, but ${head.hint} was stored`)
    }
    return undefined
  }
  if (head === undefined || torn) throw new Error(`${method} where nothing is stored`)
  if (head.hint !== named) throw new Error(`${method} names ${named}, but ${head.hint} was stored`)
  if (head.condemned) throw new Error(`${method} to a condemned hint`)
  const stage = ['putPartial', 'updatePartial', 'complete'].includes(method) ? 'partial' : 'whole'
  if (head.stage !== stage) throw new Error(`${method} to a hint that is ${head.stage}`)
  if (method === 'putVerifier') return head
  const [, version] = parameters
  // A checkpoint may be of an earlier version.
  if (method !== 'putCheckpoint' && version !== head.version) {
    throw new Error(`${method} names version ${version}, but ${head.version} was stored`)
  }
  switch (method) {
    case 'putPartial':
      return head
    case 'updatePartial':
      return { ...head, manifest: hexOf(parameters[2].manifest), version: version + 1 }
    case 'complete':
      return { ...head, stage: 'whole' }
    case 'putPending': {
      const [, , pending] = parameters
      if (head.pending !== undefined && hexOf(head.pending) !== hexOf(pending)) {
        throw new Error('another lookup was stored over a pending one')
      }
      return { ...head, pending }
    }
    case 'commit':
      if (head.pending === undefined) throw new Error('an effect without a pending lookup')
      return { ...head, pending: undefined, version: version + 1 }
    case 'advance': {
      const [, , { manifest, pending }] = parameters
      if ((head.pending === undefined) !== (pending === undefined)) {
        throw new Error(`an update ${pending ? 'makes a lookup pending' : 'forgets the pending lookup'}`)
      }
      return { ...head, manifest: hexOf(manifest), pending, version: version + 1 }
    }
    case 'putCheckpoint':
      if (version > head.version) throw new Error(`a checkpoint of version ${version}, beyond ${head.version}`)
      if (version === head.version && hexOf(parameters[2].manifest) !== head.manifest) {
        throw new Error('a checkpoint of the newest version, and of another epoch')
      }
      return head
  }
}

/** In hex; undefined: none. */
function hintNamedBy({ method, parameters }: Write): string | undefined {
  const id = method === 'begin' ? parameters[3] : parameters[0]
  return id && hexOf(id)
}

export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
