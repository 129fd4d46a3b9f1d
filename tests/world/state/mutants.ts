// Mutants: clients or stores with a known mistake, made by a change of the tab's store, core or map.

import type { KeyhushMap } from '@keyhush/client'
import type { Fetch, StateStore } from '@keyhush/client/environment'
import {
  decodeFenceRequest,
  decodeRecord,
  encodeFenceReply,
  FENCE_REPLY_BYTES,
  type FenceClaim,
  type FenceKind,
  withClaim,
} from '@keyhush/protocol'
import type { ClientHandle, Core } from '@keyhush/wasm'
import type { Chance } from '../chance.js'
import type { Disk } from '../disk.js'
import { splitClaim } from '../fence.js'
import { decodePending } from '../forms.js'
import { hexOf, type Write } from '../ledger.js'
import { responseOf, SERVERS } from '../network.js'
import { DATABASES } from './databases.js'
import type { Servers } from './servers.js'
import type { Tab } from './tab.js'

export interface Mutant {
  readonly name: string
  /** a schedule that finds it */
  readonly seed: number
  /** the model's finding */
  readonly shows: RegExp
  readonly servers?: (servers: Servers) => void
  readonly fetch?: (fetch: Fetch) => Fetch
  readonly store?: (store: StateStore, place: Place) => StateStore
  readonly core?: (core: Core, place: Place) => Core
  readonly map?: (map: KeyhushMap, tab: Tab) => KeyhushMap
}

/** The tab to change, and its surroundings. */
export interface Place {
  readonly tab: Tab
  readonly disk: Disk
  readonly chance: Chance
  /** other tabs go on, or this one is killed, before it resolves */
  readonly comes: (what: string) => Promise<void>
}

/** The client as it is. */
export const UNCHANGED: Mutant = { name: 'nothing', seed: 1, shows: /^$/ }

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'intent is stored after the query is sent',
    seed: 2,
    shows: /\(S1\)/,
    store: store =>
      changed(store, {
        putPending: async (...intent) => void store.putPending(...intent).catch(() => {}),
      }),
  },
  {
    name: 'the pending lookup goes before its effect comes',
    seed: 3,
    shows: /a second lookup for version \d+: the first was shown|another lookup was stored over a pending one/,
    store: (store, { disk, comes }) =>
      changed(store, {
        commit: async (hintId, version, effect) => {
          const { head } = disk
          if (head?.hint === hexOf(hintId) && head.version === version && head.pending !== undefined) {
            await disk.forget(isIntent(hintId, version))
            await comes('half an effect')
            await store.putPending(hintId, version, head.pending)
          }
          return await store.commit(hintId, version, effect)
        },
      }),
  },
  {
    name: 'an effect is acknowledged and lost',
    seed: 2,
    shows: /undefined is condemned|a second lookup for version/,
    store: (store, { chance }) =>
      changed(store, {
        commit: async (...effect) => (chance.happens(0.2) ? { journalBytes: 0 } : await store.commit(...effect)),
      }),
  },
  {
    name: 'a lookup is made anew, with fresh random numbers, when it is sent again',
    seed: 2,
    shows: /is not the one stored \(S1\)|undefined is condemned/,
    core: (core, { chance }) => ({
      ...core,
      reopenClient: (...stored) => {
        const client = core.reopenClient(...stored)
        let resumed: Uint8Array | undefined
        return shadowed(client, {
          resume: pending => {
            resumed = pending
            const indices = Uint32Array.from(decodePending(pending, DATABASES[0]!.manifest).indices)
            prototypeOf(client).query.call(client, indices, chance.bytes(32))
          },
          query: (...args) => {
            resumed = undefined
            prototypeOf(client).query.apply(client, args)
          },
          pendingBytes: () => resumed ?? prototypeOf(client).pendingBytes.call(client),
        })
      },
    }),
  },
  {
    name: 'a recovered record answers a new call',
    seed: 34,
    shows: /without a query of its own \(P4\)/,
    core: (core, { tab }) => ({
      ...core,
      reopenClient: (...stored) => {
        const client = core.reopenClient(...stored)
        return shadowed(client, {
          resume: pending => {
            prototypeOf(client).resume.call(client, pending)
            const { indices } = decodePending(pending, DATABASES[0]!.manifest)
            client.recon = () => {
              const records = prototypeOf(client).recon.call(client)
              recovered.set(tab, { indices, records })
              client.recon = prototypeOf(client).recon
              return records
            }
          },
        })
      },
    }),
    map: (map, tab) =>
      new Proxy(map, {
        get: (map, name: keyof KeyhushMap) => {
          if (name !== 'at') return typeof map[name] === 'function' ? map[name].bind(map) : map[name]
          return async (...[index, options]: Parameters<KeyhushMap['at']>) => {
            const { indices, records } = recovered.get(tab) ?? { indices: [], records: new Uint8Array() }
            const at = indices.indexOf(index)
            if (at < 0) return await map.at(index, options)
            recovered.delete(tab)
            const { manifest } = DATABASES[0]!
            return decodeRecord(manifest, records.subarray(at * manifest.recordBytes, (at + 1) * manifest.recordBytes))
              .value
          }
        },
      }),
  },
  {
    name: 'a condemnation is acknowledged and lost',
    seed: 2,
    shows: /a lie is found out, and the hint is not condemned/,
    store: store => changed(store, { condemn: async () => {} }),
  },
  {
    name: 'the version is not checked',
    seed: 2,
    shows:
      /a lookup of another hint or version|a hint is discarded without a reason|an effect is stored, and the fence/,
    store: (store, { disk }) =>
      changed(store, {
        putPending: (hintId, version, pending) => store.putPending(hintId, disk.head?.version ?? version, pending),
        commit: (hintId, version, effect) => store.commit(hintId, disk.head?.version ?? version, effect),
      }),
  },
  {
    name: 'each server is sent what the other is to have',
    seed: 1,
    shows: /is not the one stored \(S1\)/,
    fetch: fetch => (url, init) => fetch(isQuery(url) ? `${otherServer(url)}/v1/answer` : url, init),
  },
  {
    name: 'a hint is not registered',
    seed: 1,
    shows: /stored before its refresh server has granted it \(S8\)/,
    fetch: fetch => takenAsGranted(fetch, 'register'),
  },
  {
    name: 'a version is not confirmed',
    seed: 1,
    shows: /that the fence has not confirmed \(S8\)/,
    fetch: fetch => takenAsGranted(fetch, 'confirm'),
  },
  {
    name: 'a lookup leaves without its claim',
    seed: 1,
    shows: /a query without its claim \(S8\)/,
    fetch: fetch => (url, init) => fetch(url, isQuery(url) ? { ...init, body: bare(init) } : init),
  },
  {
    name: 'a refusal behind an answer is taken as granted',
    seed: 52,
    shows: /an effect is stored, and the fence has not granted its lookup \(S8\)/,
    fetch: fetch => async (url, init) => {
      const response = await fetch(url, init)
      if (!isQuery(url)) return response
      const reader = response.body!.getReader()
      return responseOf(response.status, Object.fromEntries(response.headers), async () => {
        const { value } = await reader.read()
        return value && granted(value)
      })
    },
  },
  {
    name: 'the refresh server forgets how far a hint has come',
    seed: 79,
    shows: /a second lookup for version \d+: the first was shown|another lookup was stored over a pending one/,
    servers: ({ fences }) => {
      for (const server of SERVERS) fences[server].asleep = true
    },
  },
  {
    name: 'the retrieve server is asked, too',
    seed: 1,
    shows: /shows a hint's id to its retrieve server \(S8\)/,
    fetch: fetch => async (url, init) => {
      if (isClaim(url)) await fetch(`${otherServer(url)}/v1/fence`, init)
      return await fetch(url, init)
    },
  },
  {
    name: 'the retrieve server is sent the claim behind its query, too',
    seed: 1,
    shows: /shows a hint's id to its retrieve server \(S8\)/,
    fetch: fetch => {
      let known: FenceClaim | undefined
      return (url, init) => {
        if (!isQuery(url)) return fetch(url, init)
        const { query, claim } = splitClaim(init.body as Uint8Array)
        known = claim ?? known
        return fetch(url, known ? { ...init, body: withClaim(query, known) } : init)
      }
    },
  },
]

const otherServer = (url: string) => SERVERS.find(server => !url.startsWith(server))!

const isClaim = (url: string) => url.endsWith('/v1/fence')

const isQuery = (url: string) => url.endsWith('/v1/answer')

/** A query without its claim. */
const bare = ({ body }: RequestInit) => splitClaim(body as Uint8Array).query as Uint8Array<ArrayBuffer>

/** Grants claims of one kind without sending them. */
function takenAsGranted(fetch: Fetch, kind: FenceKind): Fetch {
  return async (url, init) => {
    if (!isClaim(url) || decodeFenceRequest(init.body as Uint8Array).kind !== kind) return await fetch(url, init)
    const pieces = [encodeFenceReply('granted')]
    return responseOf(200, {}, async () => pieces.shift())
  }
}

/** A piece of an answer, with a refusal turned into a grant. */
function granted(piece: Uint8Array): Uint8Array {
  const end = piece.length - FENCE_REPLY_BYTES
  const refuses = hexOf(piece.subarray(end)) === hexOf(encodeFenceReply('refused'))
  return refuses ? Buffer.concat([piece.subarray(0, end), encodeFenceReply('granted')]) : piece
}

/** Records that a tab has recovered from a lookup that was pending when it opened. */
const recovered = new WeakMap<Tab, { readonly indices: readonly number[]; readonly records: Uint8Array }>()

function changed(store: StateStore, change: Partial<StateStore>): StateStore {
  return new Proxy(store, { get: (store, name: keyof StateStore) => change[name] ?? store[name] })
}

function shadowed(client: ClientHandle, change: Partial<ClientHandle>): ClientHandle {
  return Object.assign(client, change)
}

function prototypeOf(client: ClientHandle): ClientHandle {
  return Object.getPrototypeOf(client) as ClientHandle
}

function isIntent(hintId: Uint8Array, version: number): (write: Write) => boolean {
  return ({ method, parameters }) =>
    method === 'putPending' && hexOf(parameters[0]) === hexOf(hintId) && parameters[1] === version
}
