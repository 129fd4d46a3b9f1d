// What runs inside the page: the conformance suite on IndexedDB, and what only a browser can do to a store.

import { discardState } from '../../packages/client/src/open.js'
import { ONE_PARTY } from '../../packages/client/src/store/identity.js'
import { ROW_BYTES, SCHEMA_VERSION } from '../../packages/client/src/store/indexeddb/schema.js'
import { IndexedDbStore, openIndexedDbStore } from '../../packages/client/src/store/indexeddb.js'
import type { DurableStore, StateStore } from '../../packages/client/src/store/store.js'
import { expectEqual, expectRejection, outcome } from '../../packages/client/src/testing/expect.js'
import { bytes, epochOf, observe, recordOf } from '../../packages/client/src/testing/fixtures.js'
import { type Bench, conformance, type Setup } from '../../packages/client/src/testing/store.js'
import { format1 } from '../../packages/client/test/store/format-1.js'
import { format4 } from '../../packages/client/test/store/format-4.js'
import { runSchedules } from '../../packages/client/test/store/schedules.js'

type Servers = readonly [string, string]
type Kind = 'sealed' | 'unsealed'

const DATABASE = 'keyhush'
const A = recordOf(1)
const HINT = Array.from(A.hintId, byte => byte.toString(16).padStart(2, '0')).join('')
const [PARTIAL, CHECKPOINT, DIRECTORY] = [bytes('partial', 40), bytes('checkpoint', 60), epochOf(1).directory]

let pairs = 0
/** A pair of servers without stored state. */
function newPair(): Servers {
  pairs++
  return [`https://a${pairs}.example`, `https://b${pairs}.example`]
}

const identityOf = (servers: readonly string[]) => servers.join(' ')

const setups: Record<Kind, Setup> = {
  sealed: () => newBench(async servers => (await openIndexedDbStore(servers)).store),
  unsealed: () => newBench(async servers => new IndexedDbStore(identityOf(servers))),
}

async function newBench(open: (servers: Servers) => Promise<StateStore>): Promise<Bench> {
  const servers = newPair()
  const opened: StateStore[] = []
  const openBoth = async () => {
    const [store, other] = [await open(servers), await open(servers)]
    opened.push(store, other)
    return { store, other }
  }
  const bench = {
    ...(await openBoth()),
    async crash() {
      Object.assign(bench, await openBoth()) // the old ones are never closed
    },
    async remove() {
      for (const store of opened) await store.close()
    },
  }
  return bench
}

/** Runs one case of the conformance suite. */
async function conform(kind: Kind, name: string): Promise<void> {
  const bench = await setups[kind]()
  await conformance.find(found => found.name === name)!.run(bench)
  await bench.remove()
}

async function schedules(kind: Kind, options: { readonly runs: number; readonly seed: number }): Promise<void> {
  await runSchedules(setups[kind], options)
}

/** Hint A with three effects and a pending lookup. */
async function fill(store: StateStore): Promise<void> {
  await store.begin(A, PARTIAL, DIRECTORY, undefined)
  await store.complete(A.hintId, 0, CHECKPOINT)
  for (let version = 0; version < 3; version++) await lookUp(store, version)
  await store.putPending(A.hintId, 3, bytes('pending 3', 50))
}

/** The store of a new pair of servers, filled. */
async function filled() {
  const servers = newPair()
  const { store } = await openIndexedDbStore(servers)
  await fill(store)
  return { servers, store }
}

async function lookUp(store: StateStore, version: number): Promise<void> {
  await store.putPending(A.hintId, version, bytes(`pending ${version}`, 50))
  await store.commit(A.hintId, version, bytes(`effect ${version}`, 20))
}

/** Changes the database without the SDK, as a foreign script, a newer version or an accident would. */
async function raw<T>(storeName: string, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await settled(indexedDB.open(DATABASE))
  try {
    return await settled(work(database.transaction(storeName, 'readwrite').objectStore(storeName)))
  } finally {
    database.close()
  }
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}

const UNREADABLE = 'StateUnreadableError'
const UNAVAILABLE = 'StoreUnavailableError'

/** Each by its name; a test that fails rejects. */
const specials: Record<string, () => Promise<void>> = {
  async 'it is sealed, and durability is confirmed'() {
    const { store, sealed, durability } = await openIndexedDbStore(newPair())
    expectEqual({ sealed, durability, durable: store.durable }, { sealed: true, durability: 'strict', durable: true })
    await store.close()
    await expectRejection(store.read(), UNAVAILABLE)
  },

  async 'the key is kept, cannot be exported, and nothing secret is stored unsealed'() {
    const { servers, store } = await filled()
    const key = await raw('keys', keys => keys.get(identityOf(servers)))
    expectEqual([key instanceof CryptoKey, key.extractable], [true, false])
    const { pending } = await raw('heads', heads => heads.get(identityOf(servers)))
    const stored: Uint8Array[] = [...(await rowsOf(servers, 'journal')), ...(await rowsOf(servers, 'values')), pending]
    const secrets = [CHECKPOINT, bytes('effect 0', 20), bytes('pending 3', 50)]
    for (const value of stored) for (const secret of secrets) expectEqual(includes(value, secret), false, 'a secret')
    const hasDirectory = stored.some(value => includes(value, DIRECTORY))
    expectEqual(hasDirectory, true, 'the directory, unsealed')
    await store.close()
  },

  async 'rows that are torn, foreign, missing or of an older format are unreadable, and can be replaced'() {
    type Row = Record<string, unknown>
    const change = (servers: Servers, changed: (row: Row) => unknown) => async () => {
      const row = await raw('heads', heads => heads.get(identityOf(servers)))
      await raw('heads', heads => heads.put(changed(row), identityOf(servers)))
    }
    const drop =
      (servers: Servers, name: string, ...key: unknown[]) =>
      async () => {
        const all = await raw(name, store => store.getAllKeys(within(servers)))
        const found = all.find(candidate => key.every(part => (candidate as unknown[]).includes(part)))!
        await raw(name, store => store.delete(found))
      }
    const planted = (servers: Servers): Record<string, () => Promise<unknown>> => ({
      'an older format': change(servers, row => ({ ...row, format: 1 })),
      'a foreign value': change(servers, () => 'something else'),
      'a version moved on': change(servers, row => ({ ...row, version: 4, pending: undefined })),
      'a version taken back': change(servers, row => ({ ...row, version: 2, pending: undefined })),
      'an entry missing in the middle': drop(servers, 'journal', 1),
      'an entry missing at the end': drop(servers, 'journal', 2),
      'no checkpoint': drop(servers, 'values', 'checkpoint'),
      'no manifest of the checkpoint': drop(servers, 'values', 'manifest'),
      'no directory': drop(servers, 'values', 'directory'),
    })
    for (const what of Object.keys(planted(newPair()))) {
      const { servers, store } = await filled()
      await planted(servers)[what]!()
      for (const handle of [store, (await openIndexedDbStore(servers)).store]) {
        await expectRejection(observe(handle), UNREADABLE, what)
      }
      const head = await store.read().catch(() => undefined)
      await store.begin(recordOf(2), PARTIAL, DIRECTORY, head?.record.hintId)
      const { partial, directory } = await store.readPartial(recordOf(2).hintId)
      expectEqual({ partial, directory }, { partial: PARTIAL, directory: DIRECTORY }, what)
      await store.close()
    }
  },

  async 'the state of a newer release in another tab is neither read nor replaced, and goes with no other state'() {
    const { servers, store } = await filled()
    const row = await raw('heads', heads => heads.get(identityOf(servers)))
    const newer = { ...row, format: row.format + 1, other: 'fields' }
    await raw('heads', heads => heads.put(newer, identityOf(servers)))
    for (const handle of [store, (await openIndexedDbStore(servers)).store]) {
      await expectRejection(handle.read(), UNAVAILABLE)
      await expectRejection(handle.begin(recordOf(2), PARTIAL, DIRECTORY, undefined), UNAVAILABLE)
      await expectRejection(handle.discard(undefined), UNAVAILABLE)
      await expectRejection(handle.putPending(A.hintId, 3, bytes('pending 4', 50)), UNAVAILABLE)
    }
    const neighbour = await openIndexedDbStore([servers[0], newPair()[1]])
    expectEqual(await neighbour.discardOthers?.(), false)
    expectEqual(await raw('heads', heads => heads.get(identityOf(servers))), newer)
    expectEqual((await rowsOf(servers, 'journal')).length, 3)
    await neighbour.store.close()
    await raw('heads', heads => heads.put(row, identityOf(servers)))
    expectEqual((await store.read())?.version, 3)
    await store.close()
  },

  async 'a tab that keeps its connection while the database is to go: opening ends after 3 s, and works once it lets go'() {
    const opening = indexedDB.open(DATABASE)
    const kept = await new Promise<IDBDatabase>(resolve => {
      opening.onsuccess = () => resolve(opening.result)
    })
    kept.onversionchange = () => {} // as a frozen tab: it does not close
    const deleting = settled(indexedDB.deleteDatabase(DATABASE))
    await expectRejection(openIndexedDbStore(newPair()), UNAVAILABLE)
    await expectRejection(discardState({ servers: newPair() }), 'StorageError')
    kept.close()
    await deleting
    const { store } = await openIndexedDbStore(newPair())
    expectEqual(await store.read(), undefined)
    await store.close()
  },

  async 'a value of several rows of which one is missing, short or too many is unreadable'() {
    const checkpoint = bytes('of three rows', 2 * ROW_BYTES + 5)
    const planted: Record<string, readonly [row: number, by: unknown]> = {
      'one missing in the middle': [1, undefined],
      'the last one missing': [2, undefined],
      'a short one in the middle': [1, new Uint8Array(ROW_BYTES - 1)],
      'a long one': [1, new Uint8Array(ROW_BYTES + 1)],
      'one that is no bytes': [1, 'foreign'],
      'one too many': [3, new Uint8Array(5)],
    }
    for (const [what, [row, by]] of Object.entries(planted)) {
      const identity = identityOf(newPair())
      const store = new IndexedDbStore(identity) // unsealed: a seal would notice, too
      await store.begin(A, PARTIAL, DIRECTORY, undefined)
      await store.complete(A.hintId, 0, checkpoint)
      expectEqual((await store.readHint(A.hintId)).checkpoint.length, checkpoint.length)
      const key = [identity, HINT, 'checkpoint', 0, row]
      if (by === undefined) await raw('values', values => values.delete(key))
      else await raw('values', values => values.put(by, key))
      await expectRejection(store.readHint(A.hintId), UNREADABLE, what)
      await store.close()
    }
  },

  async 'rows of format 4 are read as they were meant, those of format 1 refused'() {
    const servers = newPair()
    const identity = identityOf(servers)
    const rowOf = (row: typeof format1.row | typeof format4.row) => ({
      ...row,
      record: { ...row.record, hintId: A.hintId, manifest: epochOf(1, 2).manifest },
      pending: bytes('pending 3', 50),
      condemned: undefined,
    })
    const fresh = new IndexedDbStore(identity)
    expectEqual(await fresh.read(), undefined)
    await raw('heads', heads => heads.put(rowOf(format4.row), identity))
    for (const [kind, value] of Object.entries({ checkpoint: bytes('at 1', 60), ...epochOf(1) })) {
      await raw('values', values => values.put(value, [identity, HINT, kind, 1]))
    }
    for (const [i, entry] of [bytes('effect 1', 20), bytes('update 2', 25)].entries()) {
      await raw('journal', journal => journal.put(entry, [identity, HINT, 1 + i]))
    }
    const made = new IndexedDbStore(identityOf(newPair()))
    await made.begin(A, PARTIAL, DIRECTORY, undefined)
    await made.complete(A.hintId, 0, CHECKPOINT)
    for (let version = 0; version < 2; version++) await lookUp(made, version)
    await made.advance(A.hintId, 2, { ...epochOf(1, 2), entry: bytes('update 2', 25), pending: undefined })
    await made.putCheckpoint(A.hintId, 1, { checkpoint: bytes('at 1', 60), ...epochOf(1) })
    await made.putPending(A.hintId, 3, bytes('pending 3', 50))
    expectEqual(await observe(fresh), await observe(made))
    await raw('heads', heads => heads.put(rowOf(format1.row), identity))
    await expectRejection(fresh.read(), UNREADABLE)
    await fresh.close()
    await made.close()
  },

  async 'a lost or foreign key makes the state unreadable; a new state can be begun'() {
    for (const planted of [undefined, 'not a key']) {
      const servers = newPair()
      const first = await openIndexedDbStore(servers)
      await fill(first.store)
      await first.store.close()
      if (planted === undefined) await raw('keys', keys => keys.delete(identityOf(servers)))
      else await raw('keys', keys => keys.put(planted, identityOf(servers)))
      const { store } = await openIndexedDbStore(servers)
      await expectRejection(store.read(), UNREADABLE)
      await store.begin(recordOf(2), PARTIAL, DIRECTORY, undefined)
      await store.close()
      const again = await openIndexedDbStore(servers)
      expectEqual((await again.store.readPartial(recordOf(2).hintId)).partial, PARTIAL)
      await again.store.close()
    }
  },

  async 'a database deleted under us: no state, late writes are refused, a new state can be begun and reopened'() {
    const { servers, store } = await filled()
    await settled(indexedDB.deleteDatabase(DATABASE)) // does not wait for the store to be closed
    await expectRejection(store.commit(A.hintId, 3, bytes('effect 3', 20)), 'StateMovedError')
    await expectRejection(store.putPending(A.hintId, 3, bytes('pending 3', 50)), 'StateMovedError')
    await expectRejection(store.readHint(A.hintId), 'StateMovedError')
    expectEqual(await store.read(), undefined)
    await store.begin(recordOf(2), PARTIAL, DIRECTORY, undefined)
    await store.close()
    const again = await openIndexedDbStore(servers)
    expectEqual((await again.store.readPartial(recordOf(2).hintId)).partial, PARTIAL)
    await again.store.close()
  },

  async 'a connection that is lost without a word, and a database that does not open at first: the write goes on'() {
    const { store } = await filled()
    const { transaction } = IDBDatabase.prototype
    const factory = indexedDB
    let lost: IDBDatabase | undefined
    function failing(this: IDBDatabase, ...parameters: Parameters<typeof transaction>): IDBTransaction {
      lost ??= this
      if (this === lost) throw new DOMException('the connection is lost', 'InvalidStateError')
      return transaction.apply(this, parameters)
    }
    let refusals = 1
    const open = (...parameters: Parameters<IDBFactory['open']>) => {
      if (refusals-- > 0) throw new DOMException('it is being deleted', 'UnknownError')
      return factory.open(...parameters)
    }
    await replaced(IDBDatabase.prototype, 'transaction', { value: failing }, () =>
      replaced(globalThis, 'indexedDB', { value: { open } }, async () => {
        await store.commit(A.hintId, 3, bytes('effect 3', 20))
      }),
    )
    expectEqual([lost === undefined, refusals], [false, -1])
    expectEqual((await store.readHint(A.hintId)).entries.length, 4)
    await store.close()
  },

  async 'a newer version of the database in another tab is not held up, and is left alone'() {
    const { store } = await filled()
    const upgrading = indexedDB.open(DATABASE, SCHEMA_VERSION + 1)
    const newer = await new Promise<IDBDatabase>((resolve, reject) => {
      upgrading.onblocked = () => reject(new Error('the upgrade was blocked'))
      upgrading.onsuccess = () => resolve(upgrading.result)
    })
    await expectRejection(store.read(), UNAVAILABLE)
    await expectRejection(openIndexedDbStore(newPair()), UNAVAILABLE)
    newer.close()
    await settled(indexedDB.deleteDatabase(DATABASE))
    expectEqual(await store.read(), undefined)
    await store.close()
  },

  async 'an empty database of our name is given its stores; one of other code is said to be that, and is left alone'() {
    await settled(indexedDB.deleteDatabase(DATABASE))
    ;(await settled(indexedDB.open(DATABASE))).close() // as other code does that only looks
    const { store } = await filled()
    await store.close()
    await settled(indexedDB.deleteDatabase(DATABASE))
    const making = indexedDB.open(DATABASE, SCHEMA_VERSION)
    making.onupgradeneeded = () => making.result.createObjectStore('theirs')
    ;(await settled(making)).close()
    const refused = await openIndexedDbStore(newPair()).catch((error: Error) => error)
    expectEqual(String(refused).includes('other code made it'), true)
    const kept = await settled(indexedDB.open(DATABASE))
    expectEqual([...kept.objectStoreNames], ['theirs'])
    kept.close()
    await settled(indexedDB.deleteDatabase(DATABASE))
  },

  async 'a database that is refused is said to be unavailable'() {
    const refuse = () => {
      throw new DOMException('blocked', 'SecurityError')
    }
    const factory = indexedDB
    const open = () => {
      const opening = factory.open('refused')
      opening.onupgradeneeded = () => opening.transaction!.abort() // as a private window may: an error, later
      return opening
    }
    const refusals: PropertyDescriptor[] = [
      { value: undefined },
      { get: refuse },
      { value: { open: refuse } },
      { value: { open } },
    ]
    for (const refusal of refusals) {
      await replaced(globalThis, 'indexedDB', refusal, () =>
        expectRejection(openIndexedDbStore(newPair()), UNAVAILABLE),
      )
    }
  },

  async 'without WebCrypto, or where keys cannot be kept, it works unsealed and says so'() {
    const unsealed = async () => {
      const { store, sealed } = await openIndexedDbStore(newPair())
      expectEqual(sealed, false)
      await fill(store)
      expectEqual((await store.readHint(A.hintId)).checkpoint, CHECKPOINT)
      await store.close()
    }
    await replaced(crypto, 'subtle', { value: undefined }, unsealed)
    const { put } = IDBObjectStore.prototype
    let refusals = 0
    const refusing = function (this: IDBObjectStore, value: unknown, key?: IDBValidKey) {
      if (!(value instanceof CryptoKey)) return put.call(this, value, key)
      refusals++
      throw new DOMException('no keys here', 'DataCloneError')
    }
    await replaced(IDBObjectStore.prototype, 'put', { value: refusing }, unsealed)
    expectEqual(refusals, 1) // it is not asked again
  },

  async 'an engine that ignores the wish for durability is found out'() {
    expectEqual(typeof Object.getOwnPropertyDescriptor(IDBTransaction.prototype, 'durability')!.get, 'function')
    for (const found of [undefined, 'default', 'relaxed']) {
      const { durability, store } = await replaced(IDBTransaction.prototype, 'durability', { get: () => found }, () =>
        openIndexedDbStore(newPair()),
      )
      expectEqual(durability, 'unconfirmed')
      await store.close()
    }
  },

  async 'what must be durable asks for it'() {
    const asked: unknown[] = []
    const { transaction } = IDBDatabase.prototype
    const spy = function (this: IDBDatabase, ...parameters: Parameters<IDBDatabase['transaction']>) {
      if (parameters[1] === 'readwrite') asked.push(parameters[2]?.durability)
      return transaction.apply(this, parameters)
    }
    await replaced(IDBDatabase.prototype, 'transaction', { value: spy }, async () => {
      const { store } = await openIndexedDbStore(newPair())
      const extended = bytes('extended', 55)
      const calls: Record<string, () => Promise<unknown>> = {
        begin: () => store.begin(A, PARTIAL, DIRECTORY, undefined),
        putPartial: () => store.putPartial(A.hintId, 0, PARTIAL),
        updatePartial: () => store.updatePartial(A.hintId, 0, { partial: PARTIAL, ...epochOf(1, 2) }),
        complete: () => store.complete(A.hintId, 1, CHECKPOINT),
        putPending: () => store.putPending(A.hintId, 1, bytes('pending', 50)),
        advance: () => store.advance(A.hintId, 1, { ...epochOf(1, 3), entry: bytes('update', 25), pending: extended }),
        'putPending of the same bytes': () => store.putPending(A.hintId, 2, extended),
        commit: () => store.commit(A.hintId, 2, bytes('effect', 20)),
        putCheckpoint: () => store.putCheckpoint(A.hintId, 3, { checkpoint: CHECKPOINT, ...epochOf(1, 3) }),
        putVerifier: () => store.putVerifier(A.hintId, bytes('what verifies', 80)),
        condemn: () => store.condemn(A.hintId, undefined),
      }
      const found: Record<string, unknown> = {}
      for (const [name, call] of Object.entries(calls)) {
        asked.length = 0
        await call()
        found[name] = [...asked]
      }
      const [strict, relaxed] = [['strict'], ['relaxed']]
      expectEqual(found, {
        begin: strict,
        putPartial: relaxed,
        updatePartial: strict,
        complete: strict,
        putPending: strict,
        advance: relaxed,
        // The first try, sealed afresh, is refused; the second writes what is there already, and flushes it.
        'putPending of the same bytes': ['strict', 'strict'],
        commit: relaxed,
        putCheckpoint: relaxed,
        putVerifier: relaxed,
        condemn: strict,
      })
      await store.close()
    })
  },

  async 'a write that fails at any of its requests has changed nothing'() {
    const { put, delete: remove } = IDBObjectStore.prototype
    /** Lets so many requests pass; resolves to whether they were enough for `call`. */
    const afterRequests = async (count: number, call: () => Promise<unknown>): Promise<boolean> => {
      let left = count
      const counted = <P extends unknown[], R>(method: (...parameters: P) => R) =>
        function (this: IDBObjectStore, ...parameters: P): R {
          if (left-- <= 0) throw new DOMException('no space left', 'QuotaExceededError')
          return method.apply(this, parameters)
        }
      return await replaced(IDBObjectStore.prototype, 'put', { value: counted(put) }, () =>
        replaced(IDBObjectStore.prototype, 'delete', { value: counted(remove) }, async () => {
          const found = await outcome(call())
          if (found !== 'fine') expectEqual(found, 'StoreFullError')
          return found === 'fine'
        }),
      )
    }
    const [pending, extended] = [bytes('pending', 50), bytes('extended', 55)]
    const ofThreeRows = bytes('of three rows', 2 * ROW_BYTES + 5)
    const steps: ((store: StateStore) => Promise<unknown>)[] = [
      store => store.begin(A, PARTIAL, DIRECTORY, undefined),
      store => store.updatePartial(A.hintId, 0, { partial: bytes('updated', 45), ...epochOf(1, 2) }),
      store => store.complete(A.hintId, 1, CHECKPOINT),
      store => store.putPending(A.hintId, 1, pending),
      store => store.advance(A.hintId, 1, { ...epochOf(1, 3), entry: bytes('update', 25), pending: extended }),
      store => store.putCheckpoint(A.hintId, 2, { checkpoint: ofThreeRows, ...epochOf(1, 3) }),
      store => store.putVerifier(A.hintId, bytes('what verifies', 80)),
      store => store.commit(A.hintId, 2, bytes('effect', 20)),
      store => store.condemn(A.hintId, undefined),
    ]
    const needed: number[] = []
    const { store } = await openIndexedDbStore(newPair())
    for (const step of steps) {
      const before = await observe(store)
      for (let requests = 0; ; requests++) {
        if (await afterRequests(requests, () => step(store))) {
          needed.push(requests)
          break
        }
        expectEqual(await observe(store), before, `after ${requests} requests of ${step}`)
      }
    }
    expectEqual(needed, [9, 5, 9, 1, 2, 13, 2, 2, 4], 'requests each takes')
    await store.close()
  },

  async 'a server set that has changed: what is stored for the old one goes, unless it is condemned'() {
    const pairs: (readonly string[])[] = [
      ['https://s.example', 'https://u.example'],
      ['https://t.example', 'https://u.example'],
      ['https://u.example', 'https://v.example'],
      ['https://s.example', 'https://w.example'],
      ['https://s.example', 'https://t.example', ONE_PARTY],
      ['https://s.example', 'https://x.example', ONE_PARTY],
    ]
    const opened: DurableStore[] = []
    for (const pair of pairs) opened.push(await openIndexedDbStore(pair))
    for (const { store } of opened) await fill(store)
    await opened[1]!.store.condemn(A.hintId, undefined)
    await raw('heads', heads => heads.put('torn', identityOf(pairs[3]!)))
    const { store, discardOthers } = await openIndexedDbStore(['https://t.example', 'https://s.example'])
    expectEqual([await discardOthers(), await discardOthers()], [true, false])
    const heads = await Promise.all(opened.map(({ store }) => store.read()))
    const left = heads.map(head => head && (head.condemned ? 'condemned' : 'there'))
    expectEqual(left, [undefined, 'condemned', 'there', undefined, 'there', undefined])
    const rows = [
      ...(await raw('values', values => values.getAllKeys())),
      ...(await raw('journal', rows => rows.getAllKeys())),
    ]
    const ofOldSet = rows.filter(key => /s\.example (?!https:\/\/t)/.test(String(key)))
    expectEqual(ofOldSet, [], 'rows of the old set')
    for (const each of [...opened.map(({ store }) => store), store]) await each.close()
  },

  async 'nothing of a condemned, discarded or replaced hint is left'() {
    const servers = newPair()
    const { store } = await openIndexedDbStore(servers)
    const rows = async () => (await rowsOf(servers, 'values')).length + (await rowsOf(servers, 'journal')).length
    await store.begin(A, PARTIAL, DIRECTORY, undefined)
    await store.updatePartial(A.hintId, 0, { partial: PARTIAL, ...epochOf(1, 2) })
    expectEqual(await rows(), 2)
    await store.discard(A.hintId)
    await fill(store)
    expectEqual(await rows(), 6)
    const pending = bytes('pending 3, extended', 55)
    await store.advance(A.hintId, 3, { ...epochOf(1, 2), entry: bytes('update 3', 25), pending })
    await store.putCheckpoint(A.hintId, 4, { checkpoint: CHECKPOINT, ...epochOf(1, 2) })
    expectEqual(await rows(), 3)
    await store.condemn(A.hintId, undefined)
    expectEqual(await rows(), 0)
    await store.begin(recordOf(2), PARTIAL, DIRECTORY, A.hintId)
    expectEqual(await rows(), 2)
    await store.begin(recordOf(3), PARTIAL, DIRECTORY, recordOf(2).hintId)
    expectEqual(await rows(), 2)
    await store.discard(recordOf(3).hintId)
    expectEqual(await rows(), 0)
    await store.close()
  },
}

/** All rows of a pair of servers in the journal or among the values. */
const rowsOf = (servers: Servers, name: 'journal' | 'values') => raw(name, rows => rows.getAll(within(servers)))

/** All keys of a pair of servers. */
function within(servers: Servers): IDBKeyRange {
  return IDBKeyRange.bound([identityOf(servers)], [identityOf(servers), []])
}

function includes(value: Uint8Array, part: Uint8Array): boolean {
  return value.some((_, start) => part.every((byte, i) => value[start + i] === byte))
}

/** Runs `work` with one property of the platform replaced. */
async function replaced<T>(owner: object, name: string, by: PropertyDescriptor, work: () => Promise<T>): Promise<T> {
  const own = Object.getOwnPropertyDescriptor(owner, name)
  Object.defineProperty(owner, name, { ...by, configurable: true })
  try {
    return await work()
  } finally {
    if (own === undefined) Reflect.deleteProperty(owner, name)
    else Object.defineProperty(owner, name, own)
  }
}

/** Fills the quota. Resolves once a checkpoint has been refused and lookups have gone on. */
async function overflow(): Promise<void> {
  const { store } = await filled()
  const before = await observe(store)
  await expectRejection(
    store.putCheckpoint(A.hintId, 3, { checkpoint: new Uint8Array(20 * 2 ** 20), ...epochOf(1) }),
    'StoreFullError',
  )
  expectEqual(await observe(store), before)
  await store.commit(A.hintId, 3, bytes('effect 3', 20))
  expectEqual((await store.read())?.version, 4)
  await store.close()
  await takeOut()
}

/** A half-made hint whose whole does not fit can be taken out. */
async function takeOut(): Promise<void> {
  const { store } = await openIndexedDbStore(newPair())
  await store.begin(A, PARTIAL, DIRECTORY, undefined)
  await expectRejection(store.complete(A.hintId, 0, new Uint8Array(20 * 2 ** 20)), 'StoreFullError')
  await store.updatePartial(A.hintId, 0, { partial: new Uint8Array(), ...epochOf(1), directory: new Uint8Array() })
  await expectRejection(store.complete(A.hintId, 0, CHECKPOINT), 'StateMovedError')
  await store.discard(A.hintId)
  expectEqual(await store.read(), undefined)
  await store.close()
}

/** One of several tabs on one state: makes `lookups` lookups of its own, and resolves to the versions that they got. */
async function contend(servers: Servers, name: string, lookups: number): Promise<number[]> {
  const { store } = await openIndexedDbStore(servers)
  const got: number[] = []
  while (got.length < lookups) {
    const { version, pending } = (await store.read())!
    try {
      // A pending lookup of another tab is finished first, unchanged.
      const lookup = pending ?? bytes(`${name} ${version}`, 30)
      await store.putPending(A.hintId, version, lookup)
      await store.commit(A.hintId, version, lookup)
      if (pending === undefined) got.push(version)
    } catch (error) {
      if ((error as Error).name !== 'StateMovedError') throw error
    }
  }
  await store.close()
  return got
}

const contested: Servers = ['https://a.contested', 'https://b.contested']

async function beginContest(): Promise<void> {
  const { store } = await openIndexedDbStore(contested)
  await store.begin(A, PARTIAL, DIRECTORY, undefined)
  await store.complete(A.hintId, 0, CHECKPOINT)
  await store.close()
}

/** The version reached, and the tab that made each effect. */
async function endContest(names: readonly string[]): Promise<(string | undefined)[]> {
  const { store } = await openIndexedDbStore(contested)
  const { entries } = await store.readHint(A.hintId)
  await store.close()
  const madeBy = (effect: Uint8Array, version: number) =>
    names.find(name => String(bytes(`${name} ${version}`, 30)) === String(effect))
  return entries.map(madeBy)
}

export const storeTests = {
  conform,
  schedules,
  specials,
  overflow,
  beginContest,
  contend: (name: string, lookups: number) => contend(contested, name, lookups),
  endContest,
}

declare global {
  /** what this module offers, on the page */
  var page: { readonly storeTests: typeof storeTests }
}
