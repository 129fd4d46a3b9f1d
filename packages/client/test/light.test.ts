// Mode `light`: what each server is shown, and that nothing is done with what they reply before all of it is checked; that
// a lie is refused, whosever it is, and told on where it can be; and that the way on depends on no key (L1–L5).

import {
  decodeLightRequest,
  HEADER_BYTES,
  lightPath,
  lightReplyBytes,
  SUITE_POINTPROOFS,
  SUITE_TAGS,
} from '@keyhush/protocol'
import { describe, expect, test } from 'vitest'
import { computingSilenceMs } from '../src/base/constants.js'
import { estimate, type MapEvent, type Progress } from '../src/index.js'
import { light } from '../src/scheme/light/light.js'
import { Meter } from '../src/servers/stats.js'
import { type Link, postSecret } from '../src/servers/transport.js'
import { drive, ManualClock } from './support/clock.js'
import { buildDatabase, type Database, someValues } from './support/database.js'
import { nextEpoch } from './support/epochs.js'
import { core, Harness, hex, keyed, keyless, NAMES, sameOnBoth } from './support/harness.js'
import { add, append, change, edit, Living, livingKeyless, remove, utf8 } from './support/living.js'
import { A, B, bytesOf, hang, type Misbehave, type Network, ok, on, problem, type Seen } from './support/network.js'
import { World } from './support/world.js'

const KINDS = ['merkle', 'tags'] as const
const HASH = new Uint8Array(32)
const HINT = lightPath('hint')
const TAGS = lightPath('tags')
const asked = ({ seen }: Network, skip = 0) => seen.filter(({ path }) => path === HINT || path === TAGS).slice(skip)
const blobs = ({ seen }: Network) => seen.filter(({ path }) => path.startsWith('/v1/blobs/'))
const pathsOf = (seen: readonly Seen[]) => seen.map(({ path }) => path.replace(/[0-9a-f]{64}/, '<hash>'))
/** Who is which party in an attempt. */
const rolesOf = (seen: readonly Seen[]) => ({
  refresh: seen.find(({ path }) => path === HINT)!.server,
  retrieve: seen.find(({ path }) => path === TAGS)!.server,
})

interface Options {
  readonly seed?: number
  /** `auto`, which is tags for databases as small as these */
  readonly proofs?: (typeof KINDS)[number] | 'auto'
  readonly onProgress?: (progress: Progress) => void
}

async function opened(network: Network, { seed = 1, proofs = 'auto', onProgress }: Options = {}) {
  const harness = new Harness(network, seed)
  const events: MapEvent[] = []
  const map = await harness.open({
    ...{
      mode: 'light',
      proofs,
      push: false,
      onEvent: event => void (event.type === 'storage' || events.push(event)),
    },
    ...(onProgress && { onProgress }),
  })
  return { harness, map, events, network }
}

/** Changes what is replied to one path, by whichever server. */
function lying(network: Network, path: string, lie: (body: Uint8Array, seen: Seen) => void): void {
  const misbehave = on(path, async (genuine, seen) => {
    const reply = await bytesOf(genuine)
    if (genuine.status === 200) lie(reply.subarray(HEADER_BYTES), seen)
    return ok(reply)
  })
  for (const server of [A, B]) network.misbehave[server] = misbehave
}

function misbehaving(network: Network, misbehave: Misbehave | undefined): void {
  for (const server of [A, B]) network.misbehave[server] = misbehave
}

const tampered = (map: { readonly stats: { readonly incidents: readonly { server: string; code: string }[] } }) =>
  map.stats.incidents.filter(({ code }) => code === 'tampered').map(({ server }) => server)

describe('a light hint', () => {
  test.each(KINDS)(
    'comes of one request to each server, and answers keys and indices, alone and in batches: %s',
    async proofs => {
      const { network, database } = keyed()
      const { harness, map, events } = await opened(network, { proofs })
      expect([map.mode, map.stats.fenced]).toEqual(['light', true])
      // The directory is the one blob that is downloaded.
      expect(pathsOf(network.seen)).toEqual([
        ...['/v1/manifest', '/v1/manifest', '/v1/blobs/<hash>'],
        ...asked(network).map(({ path }) => path),
        ...['/v1/fence', '/v1/fence'],
      ])
      const { values } = database.contents
      for (const [i, name] of NAMES.entries()) expect(await harness.drive(map.get(name))).toEqual(values[i])
      expect(await harness.drive(map.get('absent.example'))).toBeUndefined()
      expect(await harness.drive(map.getMany([NAMES[7]!, 'absent.example', NAMES[7]!], { padTo: 5 }))).toEqual([
        values[7],
        undefined,
        values[7],
      ])
      for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
      expect([events, map.stats.incidents]).toEqual([[], []])
    },
  )

  test.each(KINDS)('costs what is said beforehand, and progress says so: %s', async proofs => {
    const { network, database } = keyed()
    const told: Progress[] = []
    const { harness, map } = await opened(network, { proofs, onProgress: progress => void told.push(progress) })
    const costs = light.costs(core, database.manifest, { proofs })
    const { directoryBytes, maxBatch } = database.manifest
    expect(costs.prepareBytes).toBe(
      lightReplyBytes('hint', database.manifest, proofs) + lightReplyBytes('tags', database.manifest, proofs),
    )
    const total = costs.prepareBytes + directoryBytes
    expect(told.at(-1)).toEqual({ phase: 'ready', loadedBytes: total, totalBytes: total })
    await harness.drive(map.get(NAMES[3]!))
    const { lookupBytesUp, lookupBytesDown } = costs
    expect(map.stats.lastLookup).toMatchObject({ bytesUp: lookupBytesUp, bytesDown: lookupBytesDown })
    expect(map.stats.held).toEqual({ tags: 0, ...costs.held })
    expect((await estimate([A, B], { fetch: network.fetch, proofs })).modes['light']).toEqual({ ...costs, maxBatch })
  })

  test.each(KINDS)(
    'shows s and c to the refresh server alone, K to the retrieve server alone, in one tick, after both manifests and before any query: %s',
    async proofs => {
      for (let seed = 1; seed <= 20; seed++) {
        const { network } = keyed()
        const { harness, map } = await opened(network, { seed, proofs })
        for (const name of NAMES.slice(0, 5)) await harness.drive(map.get(name))
        const [first, second] = asked(network) as [Seen, Seen]
        expect(asked(network)).toHaveLength(2)
        expect(first.tick).toBe(second.tick)
        // In the order of the servers' names, whichever has which role; and the roles are those of all queries.
        expect([first.server, second.server]).toEqual([A, B])
        const { refresh, retrieve } = rolesOf([first, second])
        expect(refresh).not.toBe(retrieve)
        const at = (path: string) => network.seen.findIndex(seen => seen.path === path)
        const last = (path: string) => network.seen.findLastIndex(seen => seen.path === path)
        expect(last('/v1/manifest')).toBeLessThan(network.seen.indexOf(first))
        expect(at('/v1/fence')).toBeGreaterThan(network.seen.indexOf(second))
        expect(at('/v1/answer')).toBeGreaterThan(at('/v1/fence'))
        for (const { server } of network.claims()) expect(server).toBe(refresh)

        const hint = decodeLightRequest('hint', [first, second].find(({ path }) => path === HINT)!.body)
        const tags = decodeLightRequest('tags', [first, second].find(({ path }) => path === TAGS)!.body)
        // With tags, a key more for the one, and challenge words more for the other.
        expect([hint, tags].map(({ secrets }) => secrets.length)).toEqual(proofs === 'tags' ? [72, 40] : [64, 8])
        const parts = (secrets: Uint8Array, ...at: number[]) =>
          at.map((start, i) => secrets.subarray(start, at[i + 1])).filter(({ length }) => length > 0)
        const [ofRefresh, ofRetrieve] = [parts(hint.secrets, 0, 32, 64), parts(tags.secrets, 0, 8)]
        const shown = (server: string) =>
          network.seen.filter(seen => seen.server === server).map(({ body, url }) => hex(body) + hex(utf8(url)))
        for (const secret of ofRefresh) for (const sent of shown(retrieve)) expect(sent).not.toContain(hex(secret))
        for (const secret of ofRetrieve) for (const sent of shown(refresh)) expect(sent).not.toContain(hex(secret))
        // No eight bytes in common but those of the header: database id, generation and epoch, Q.
        const windows = ({ body }: Seen) =>
          Array.from({ length: body.length - HEADER_BYTES - 7 }, (_, i) =>
            hex(body.subarray(HEADER_BYTES + i, HEADER_BYTES + i + 8)),
          )
        const [ones, others] = [windows(first), windows(second)]
        expect(ones.filter(window => others.includes(window))).toEqual([])
      }
    },
  )

  test('draws its roles, whatever the order of the servers', async () => {
    const refresh = new Set<string>()
    for (let seed = 1; seed <= 16; seed++) {
      const { network } = await opened(keyless().network, { seed })
      refresh.add(rolesOf(asked(network)).refresh)
    }
    expect([...refresh].sort()).toEqual([A, B])
  })

  test.each(KINDS)(
    'is an ordinary hint: it follows updates, partitions added included, and looks up as ever: %s',
    async proofs => {
      const { network, database } = keyed()
      const living = new Living(network, database)
      const { harness, map } = await opened(network, { proofs })
      await harness.drive(map.get(NAMES[0]!))
      living.publish([remove(NAMES[4]!), change(NAMES[5]!, 'edited'), ...['a', 'b', 'c', 'd', 'e'].map(k => add(k, k))])
      await harness.drive(map.sync())
      living.publish([change('b', 'again')])
      expect(await harness.drive(map.getMany([NAMES[4]!, NAMES[5]!, 'a', 'b', NAMES[19]!]))).toEqual([
        ...[undefined, utf8('edited'), utf8('a')],
        // At the epoch before it is what it was.
        utf8('b'),
        database.contents.values[19],
      ])
      await harness.drive(map.sync())
      expect(await harness.drive(map.get('b'))).toEqual(utf8('again'))
      const { partitions, partitionRecords } = living.newest.manifest
      const held = proofs === 'tags' ? 8 * partitions * partitionRecords : 0
      expect([map.mode, map.stats.held['tags']]).toEqual(['light', held])
      expect(asked(network)).toHaveLength(2)
    },
  )

  test('keeps tags unless it is told otherwise, where they do not make it long', async () => {
    const { network } = keyless()
    const { map } = await opened(network)
    expect(map.stats.held['tags']).toBeGreaterThan(0)
    const { manifest } = keyless().database
    const large = { ...manifest, records: 2 ** 20, recordBytes: 256, partitions: 32, partitionRecords: 2 ** 15 }
    const proofs = (records: number, change: object = {}) =>
      light.costs(core, { ...large, records, ...change }, { proofs: 'auto' }).proofs
    expect([proofs(2 ** 20), proofs(2 ** 20, { blockRecords: 2 })]).toEqual(['merkle', 'tags'])
    // Pointproofs in Merkle's place, where they are to be had.
    const pointproofs = { rowsHash: HASH, keyHash: HASH, transcriptHash: HASH, development: false }
    const proved = (blockRecords: number, development = false) =>
      proofs(2 ** 20, { blockRecords, suite: SUITE_POINTPROOFS, pointproofs: { ...pointproofs, development } })
    expect([proved(1), proved(2), proved(1, true)]).toEqual(['pointproofs', 'tags', 'merkle'])
  })

  test.each(KINDS)(
    'is checked partition by partition, and the page has its thread back in between: %s',
    async proofs => {
      const { network, database } = keyless(40)
      let pauses = 0
      const pause = async () => {
        pauses += 1
      }
      const harness = new Harness(network, 1, { pause })
      const map = await harness.open({ mode: 'light', proofs, push: false })
      expect(map.mode).toBe('light')
      // Once before the first.
      expect([pauses, database.manifest.partitions]).toEqual([10, 10])
    },
  )

  test('needs commitments: without them it is refused before anything is asked', async () => {
    const bare = keyless(6, {
      values: Array.from({ length: 6 }, (_, i) => Uint8Array.of(i + 1)),
      partitions: 2,
      manifest: { suite: SUITE_TAGS, commitments: new Uint8Array(64) },
    })
    const harness = new Harness(bare.network)
    const failure = await harness.failure(harness.open({ mode: 'light', proofs: 'auto' }))
    expect(failure).toMatchObject({ name: 'UnsupportedError' })
    expect(Object.keys((await estimate([A, B], { fetch: bare.network.fetch })).modes).sort()).toEqual(['full', 'local'])
    expect(new Set(pathsOf(bare.network.seen))).toEqual(new Set(['/v1/manifest']))
  })
})

describe('a lie', () => {
  const small = () => keyless(7, { partitions: 2, partitionRecords: 5 })

  /** Refused, told on, and replaced by a full download that works. */
  async function expectFallback(
    network: Network,
    database: Database,
    liar: 'refresh' | 'retrieve' | undefined,
    options: Options = {},
  ) {
    const { harness, map, events } = await opened(network, options)
    misbehaving(network, undefined)
    const attempt = asked(network)
    expect(attempt).toHaveLength(2)
    expect(tampered(map)).toEqual(liar === undefined ? [] : [rolesOf(attempt)[liar]])
    expect([map.mode, events]).toEqual(['full', []])
    for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
    return { harness, map, attempt }
  }

  test.each(KINDS)(
    'of any byte, of parities, of sums, of tags, of padding too, is refused; the download names the liar: %s',
    async proofs => {
      const { database } = small()
      let lies = 0
      for (const [part, liar] of [
        ['hint', 'refresh'],
        ['tags', 'retrieve'],
      ] as const) {
        // Every third byte: of each tag two or three, and of each sum and each parity.
        for (let at = 0; at < lightReplyBytes(part, database.manifest, proofs) - HEADER_BYTES; at += 3) {
          const { network } = small()
          lying(network, lightPath(part), body => {
            body[at]! ^= 1 << (at & 7)
          })
          await expectFallback(network, database, liar, { proofs })
          lies += 1
        }
      }
      expect(lies).toBeGreaterThan(30)
    },
  )

  test('of both servers names both', async () => {
    for (const proofs of KINDS) {
      const { network, database } = small()
      // Of parities, and of a tag.
      lying(network, '/v1/', (body, { path }) => {
        if (path === HINT) body[3]! ^= 1
        if (path === TAGS) body[body.length - 3]! ^= 1
      })
      const { map } = await opened(network, { proofs })
      expect(tampered(map).sort()).toEqual([A, B])
      expect(database.byIndex.length).toBe(map.size)
    }
  })

  test('of the parities names the refresh server at once, and nobody else is looked into', async () => {
    const { network } = small()
    // Of parities, and of the other sum.
    lying(network, '/v1/', (body, { path }) => {
      if (path === HINT || path === TAGS) body[3]! ^= 1
    })
    const { map } = await opened(network, { proofs: 'tags' })
    expect(tampered(map)).toEqual([rolesOf(asked(network)).refresh])
  })

  test('is never the end of a hint: nothing of it was stored, registered or asked, and the next shares nothing with it', async () => {
    const { network, database } = small()
    lying(network, TAGS, body => {
      body[0]! ^= 1
    })
    const { map, harness, attempt } = await expectFallback(network, database, 'retrieve')
    const index = network.seen.indexOf(attempt[1]!)
    const before = network.seen.slice(0, index + 1)
    expect(new Set(pathsOf(before))).toEqual(new Set(['/v1/manifest', HINT, TAGS]))
    expect(pathsOf(network.seen.slice(index + 1))[0]).toBe('/v1/manifest')
    // Roles are drawn anew: over many lives they are as often the same as not.
    const same: boolean[] = []
    for (let seed = 1; seed <= 24; seed++) {
      const { network } = small()
      lying(network, TAGS, body => {
        body[0]! ^= 1
      })
      await opened(network, { seed })
      const { refresh } = rolesOf(asked(network))
      same.push(network.claims()[0]!.server === refresh)
    }
    expect(new Set(same).size).toBe(2)
    // Another hint is made in full, until its owner asks for a new one.
    await harness.drive(map.reset())
    expect([map.mode, asked(network).length]).toEqual(['light', 4])
    const secrets = asked(network).map(({ body }) => hex(body.subarray(HEADER_BYTES)))
    expect(new Set(secrets).size).toBe(4)
    for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(database.byIndex[i])
  })

  test('is not told on if the download ends at another epoch, unless the tags alone showed whose it was', async () => {
    for (const [path, at, named] of [
      [TAGS, 0, 0],
      [HINT, 0, 1],
    ] as const) {
      const living = livingKeyless()
      const { network } = living
      lying(network, path, body => {
        body[at]! ^= 1
        living.publish([edit(3, 'later')])
      })
      const { harness, map } = await opened(network)
      expect([map.mode, map.epoch, tampered(map).length]).toEqual(['full', 2, named])
      misbehaving(network, undefined)
      expect(await harness.drive(map.at(3))).toEqual(utf8('later'))
    }
  })

  test('in a header, or a length, is its sender’s', async () => {
    for (const path of [HINT, TAGS]) {
      for (const at of [0, 4, 6, 8, 24, 28, 32, 36, 39, -1]) {
        const { network, database } = small()
        misbehaving(
          network,
          on(path, async genuine => {
            const reply = await bytesOf(genuine)
            if (at < 0) return ok(reply.subarray(0, at))
            reply[at]! ^= 1
            return ok(reply)
          }),
        )
        const { harness, map } = await opened(network)
        const roles = rolesOf(asked(network))
        const { server, code } = map.stats.incidents[0]!
        expect(server).toBe(path === HINT ? roles.refresh : roles.retrieve)
        expect(['protocol', 'version']).toContain(code)
        expect(map.mode).toBe('full')
        expect(await harness.drive(map.at(0))).toEqual(database.byIndex[0])
      }
    }
  })

  test('honest servers are never named', async () => {
    for (let seed = 1; seed <= 30; seed++) {
      const { map } = await opened(keyless(20 + seed).network, { seed })
      expect([map.mode, map.stats.incidents]).toEqual(['light', []])
    }
  })
})

test('any bit of an answer changed, of any index asked for, has one error and one traffic: with tags of both servers', async () => {
  const values = Array.from({ length: 7 }, (_, i) => Uint8Array.of(i + 1, 200 - i))
  const small = () => keyless(7, { values, partitions: 2, partitionRecords: 4 })
  const answered = HEADER_BYTES + 2 * 2
  for (const server of [A, B]) {
    for (let bit = 8 * HEADER_BYTES; bit < 8 * answered; bit++) {
      const outcomes = []
      for (let index = 0; index < values.length; index++) {
        const { network } = small()
        const { harness, map } = await opened(network, { seed: 7, proofs: 'tags' })
        expect(await harness.drive(map.at(index))).toEqual(values[index])
        const before = network.seen.length
        network.misbehave[server] = on('/v1/answer', async genuine => {
          const bytes = await bytesOf(genuine)
          bytes[bit >> 3]! ^= 1 << (bit & 7)
          return ok(bytes)
        })
        const { name, code, message, ...error } = await harness.failure(map.at(index))
        const traffic = network.seen
          .slice(before)
          .map(({ server, method, path, body }) => `${server} ${method} ${path} ${body.length}`)
        outcomes.push({ name, code, message, ...error, traffic })
        expect(await harness.failure(map.at(index))).toMatchObject({ name: 'CondemnedError' })
        expect(network.seen.length).toBe(before + traffic.length)
      }
      expect(outcomes[0]).toMatchObject({ name: 'TamperedError', code: 'tampered', server })
      for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0])
    }
  }
}, 120_000)

describe('servers that give nothing', () => {
  test.each([
    ['one does not offer it', (path: string) => on(path, () => problem(404, 'not_found')), 2, 'protocol'],
    ['one is full', (path: string) => on(path, () => problem(503, 'light_full', { 'retry-after': '1' })), 4, 'network'],
    ['one has had enough', (path: string) => on(path, () => problem(429, 'rate_limited')), 4, 'rate_limited'],
    ['one keeps silent', (path: string) => hang(path), 2, 'network'],
  ] as const)('%s: the hint is downloaded, whatever will be asked', async (_, misbehave, requests, code) => {
    for (const path of [HINT, TAGS]) {
      const views: string[][] = []
      for (const index of [0, 9]) {
        const { network, database } = keyless()
        misbehaving(network, misbehave(path))
        const { harness, map } = await opened(network)
        expect(asked(network)).toHaveLength(requests)
        // Sent again it is the same, byte for byte, and to the same server.
        expect(new Set(asked(network).map(({ server, body }) => server + hex(body))).size).toBe(2)
        expect(map.stats.incidents.map(incident => incident.code)).toEqual([code])
        expect(map.mode).toBe('full')
        expect(await harness.drive(map.at(index))).toEqual(database.byIndex[index])
        views.push(network.seen.map(({ server, method, path, body }) => `${server} ${method} ${path} ${body.length}`))
      }
      expect(views[1]).toEqual(views[0])
    }
  })

  test('a connection that broke is used again with the same bytes, and the hint is light', async () => {
    const { network, database } = keyless()
    let broken = 0
    misbehaving(network, (seen, genuine) => {
      if (seen.path !== HINT && seen.path !== TAGS) return undefined
      if (broken++ < 2) throw new TypeError('connection reset')
      return genuine
    })
    const { harness, map } = await opened(network)
    expect([map.mode, asked(network).length]).toEqual(['light', 4])
    expect(new Set(asked(network).map(({ body }) => hex(body))).size).toBe(2)
    expect(await harness.drive(map.at(3))).toEqual(database.byIndex[3])
  })
})

describe('epochs', () => {
  /** Both servers have moved on by two epochs, once `times` attempts have come to them. */
  function moving(living: Living, times: number, path: string) {
    let left = times
    misbehaving(living.network, (seen, _genuine) => {
      if (seen.path !== path || left === 0) return undefined
      left -= 1
      living.publish([edit(3, `${left} one`)])
      living.publish([edit(3, `${left} two`)])
      const { generation, epoch } = living.newest.manifest
      return Response.json({ code: 'epoch_unknown', message: 'gone', generation, epoch }, { status: 404 })
    })
  }

  test.each([HINT, TAGS])('%s answers another epoch by now: all begins again there under another root', async path => {
    const living = livingKeyless()
    moving(living, 2, path)
    const { harness, map } = await opened(living.network)
    expect([map.mode, map.epoch, asked(living.network).length]).toEqual(['light', 5, 6])
    expect(new Set(asked(living.network).map(({ body }) => hex(body.subarray(HEADER_BYTES)))).size).toBe(6)
    expect(new Set(living.network.claims().map(({ hintId }) => hex(hintId))).size).toBe(1)
    expect(await harness.drive(map.at(3))).toEqual(utf8('0 two'))
    expect(map.stats.incidents).toEqual([])
  })

  test.each([HINT, TAGS])('%s does so three times: the hint is downloaded', async path => {
    const living = livingKeyless()
    moving(living, 9, path)
    const { harness, map } = await opened(living.network)
    expect([map.mode, asked(living.network).length]).toEqual(['full', 6])
    misbehaving(living.network, undefined)
    expect(await harness.drive(map.at(4))).toEqual(living.newest.byIndex[4])
  })

  test('an update between the two computations makes no hint of two epochs: the older one is answered', async () => {
    for (const path of [HINT, TAGS]) {
      const living = livingKeyless()
      const first = living.newest
      let published = false
      misbehaving(living.network, (seen, _genuine) => {
        if (seen.path !== path || published) return undefined
        published = true
        living.publish([edit(3, 'later'), append('grown'), append('again')])
        return undefined
      })
      const { harness, map } = await opened(living.network)
      expect([map.mode, published]).toEqual(['light', true])
      expect(await harness.drive(map.at(4))).toEqual(first.byIndex[4])
      misbehaving(living.network, undefined)
      await harness.drive(map.sync())
      expect(map.epoch).toBe(2)
      for (let i = 0; i < map.size; i++) expect(await harness.drive(map.at(i))).toEqual(living.newest.byIndex[i])
    }
  })

  test.each(KINDS)('a reply of another epoch under this one’s header is refused: %s', async proofs => {
    const first = buildDatabase(core, { values: someValues(15, 5), partitions: 4 })
    const second = nextEpoch(core, first, [edit(3, 'other')])
    for (const part of ['hint', 'tags'] as const) {
      const network = sameOnBoth(first)
      lying(network, lightPath(part), (body, seen) => {
        body.set(second.makeLight(part, decodeLightRequest(part, seen.body).secrets))
      })
      const { map } = await opened(network, { proofs })
      const roles = rolesOf(asked(network))
      expect([map.mode, tampered(map)]).toEqual(['full', [part === 'hint' ? roles.refresh : roles.retrieve]])
    }
  })

  test('a new generation needs a new hint, of a new root', async () => {
    const { network, database } = keyless()
    const { harness, map } = await opened(network)
    const next = buildDatabase(core, {
      values: someValues(12, 5),
      partitions: 3,
      manifest: {
        ...{ generation: 2, epoch: 2, previousManifest: core.blake3(database.manifestBytes) },
        ...{ databaseId: database.manifest.databaseId, maxBatch: database.manifest.maxBatch },
      },
    })
    for (const server of [A, B]) network.publish(server, next)
    await harness.drive(map.sync())
    expect([map.mode, map.epoch, asked(network).length]).toEqual(['light', 2, 4])
    expect(new Set(asked(network).map(({ body }) => hex(body.subarray(HEADER_BYTES)))).size).toBe(4)
    expect(await harness.drive(map.at(11))).toEqual(next.byIndex[11])
  })
})

describe('what is stored', () => {
  const options = { mode: 'light', proofs: 'auto' } as const

  test('is a hint like any other, which later lives take up without a request but the fence’s', async () => {
    const world = new World()
    const life = world.life()
    await world.checkValues(await life.open(options))
    life.kill()
    const next = world.life()
    const map = await next.open(options)
    expect(next.events).toContainEqual({ type: 'resumed', what: 'hint', pending: false })
    expect([map.mode, asked(world.network).length, blobs(world.network)]).toEqual(['light', 2, []])
    await world.checkValues(map)
    await world.auditor.assertSound()
    // A map that leaves the mode open uses it; one that insists on another begins anew.
    next.kill()
    const open = world.life()
    expect((await open.open({ mode: 'auto', proofs: 'auto' })).mode).toBe('light')
    open.kill()
    const insisting = world.life()
    expect((await insisting.open({ mode: 'full', proofs: 'auto' })).mode).toBe('full')
  })

  test('after a fallback stays what it is: no later life asks for a light hint', async () => {
    const world = new World()
    lying(world.network, TAGS, body => {
      body[0]! ^= 1
    })
    const life = world.life()
    expect((await life.open(options)).mode).toBe('full')
    misbehaving(world.network, undefined)
    life.kill()
    const next = world.life()
    const map = await next.open(options)
    expect([map.mode, asked(world.network).length]).toEqual(['full', 2])
    await world.checkValues(map)
    await world.drive(map.reset())
    expect([map.mode, asked(world.network).length]).toEqual(['light', 4])
    await world.checkValues(map)
    await world.auditor.assertSound()
  })

  test.each(KINDS)(
    'never has s, a challenge, the root, or without tags a key of them, whenever the life that makes it ends; the next has another root: %s',
    {
      timeout: 120_000,
    },
    async proofs => {
      const options = { mode: 'light', proofs } as const
      /** What a server was shown of what is to be nowhere else. Whoever keeps tags needs the two keys of theirs for life. */
      const secretsOf = ({ path, body }: Seen) => {
        const shown = body.subarray(HEADER_BYTES)
        if (path === HINT) return [hex(shown.subarray(0, 32)), hex(shown.subarray(32, 64))]
        return [hex(proofs === 'tags' ? shown.subarray(8) : shown)]
      }
      let turns = 0
      let made = 0
      for (let over = false; !over; turns += 3) {
        const world = new World({ seed: 1 + turns })
        const roots: Uint8Array[] = []
        const life = world.life()
        const { random } = life.environment
        Object.assign(life.environment, {
          random: (bytes: number) => {
            const drawn = random(bytes)
            if (bytes === 32) roots.push(drawn.slice())
            return drawn
          },
        })
        const writes: (readonly string[])[] = []
        life.interfere = (method, when) => {
          if (when === 'before') writes.push([method, ...pathsOf(world.network.seen)])
        }
        over = await life.killAfter(turns, life.openIdle(options))
        const secrets = [...roots.map(hex), ...asked(world.network).flatMap(secretsOf)]
        made += Number(secrets.length > 0)
        // Nothing is written before both replies are there.
        for (const [method, ...paths] of writes) {
          if (method !== 'read')
            expect(
              paths.filter(path => path === HINT || path === TAGS),
              method,
            ).toHaveLength(2)
        }
        const disk = await bytesOn(world)
        for (const secret of secrets) for (const stored of disk) expect(stored).not.toContain(secret)

        const next = world.life()
        const map = await next.open(options)
        expect(map.mode).toBe('light')
        await world.checkValues(map, [6, 2])
        const all = asked(world.network).map(({ body }) => hex(body.subarray(HEADER_BYTES)))
        expect(new Set(all).size).toBe(all.length)
        const shown = asked(world.network).flatMap(secretsOf)
        for (const stored of await bytesOn(world)) for (const secret of shown) expect(stored).not.toContain(secret)
        const head = (await world.head())!
        const { refresh, retrieve } = rolesOf(asked(world.network).slice(-2))
        expect(head.record.parties).toEqual([retrieve, refresh])
        await world.auditor.assertSound()
        next.kill()
      }
      expect(turns).toBeGreaterThan(100)
      expect(made).toBeGreaterThan(10)
    },
  )

  /** All that the disk holds, in hex. */
  async function bytesOn({ disk }: World): Promise<string[]> {
    const all: string[] = []
    const visit = (value: unknown): void => {
      if (value instanceof Uint8Array) all.push(hex(value))
      else if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) visit(part)
    }
    const head = await disk.read()
    visit(head)
    if (head === undefined) return all
    const { hintId } = head.record
    visit(head.stage === 'partial' ? await disk.readPartial(hintId) : await disk.readHint(hintId))
    expect(all.length).toBeGreaterThan(2)
    return all
  }
})

test('given up while it is opened, it leaves nothing', async () => {
  for (let turns = 0, over = false; !over; turns += 4) {
    const { network } = keyless()
    const harness = new Harness(network, 1 + turns)
    const controller = new AbortController()
    const opening = harness.open({ mode: 'light', proofs: 'auto', signal: controller.signal })
    const outcome = opening.then(
      () => 'opened',
      (error: Error) => error.message,
    )
    for (let i = 0; i < turns; i++) await Promise.resolve()
    controller.abort(new Error('given up'))
    const message = await outcome
    expect(['given up', 'opened']).toContain(message)
    over = message === 'opened'
    expect(network.queries()).toEqual([])
  }
})

test('a server that computes is waited for as long as its records take', async () => {
  const clock = new ManualClock()
  const controller = new AbortController()
  const link: Link = {
    server: { name: A },
    environment: { clock, fetch: () => new Promise(() => {}) },
    meter: new Meter(),
  }
  const silenceMs = computingSilenceMs(2 ** 29)
  const asked = postSecret(link, '/v1/hint', new Uint8Array(80), 2 ** 21, silenceMs, () => {}, controller.signal)
  await expect(drive(clock, asked)).rejects.toMatchObject({ name: 'NetworkError', timedOut: true })
  expect(clock.now()).toBe(10_000 + 2 ** 14)
})
