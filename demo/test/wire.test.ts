// The wire explorer explains every byte of real messages, and each of its checks notices the fault it is for.

import { encodeInstantAnswer, encodeInstantQuery, hasInstant, instantLayout } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, test } from 'vitest'
import { keyed as manifest } from '../../packages/protocol/test/manifests.js'
import { check, type Seen } from '../src/page/wire/checks.js'
import { fieldsOfReply, fieldsOfRequest } from '../src/page/wire/fields.js'
import type { Exchange } from '../src/page/wire/recorder.js'

const core = await loadCore()
const random = (length: number, seed = 1) => {
  let state = seed
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return state >>> 24
  })
}
/** An instant request to each party, and an answer, of the core's own lengths. */
function instant(of: 'records' | 'directory', count: number, seed = 1) {
  const { records, recordBytes, partitions, partitionRecords, blockRecords } = instantLayout(manifest, of)
  const layout = core.layout(records, recordBytes, partitions, partitionRecords, blockRecords)
  const indices = Uint32Array.from({ length: count }, (_, i) => i)
  const query = core.newInstantQuery(layout, indices, random(32, seed))
  const requests = ([0, 1] as const).map(party => encodeInstantQuery(manifest, of, count, query.request(party)))
  const reply = encodeInstantAnswer(manifest, of, count, random(count * layout.instantAnswerBytes, seed))
  query.free()
  layout.free()
  return { requests: requests as [Uint8Array, Uint8Array], reply }
}

describe('fields', () => {
  test.each([1, 3])('of instant lookups, %i at once, are all of a request and of an answer', count => {
    expect(hasInstant(manifest)).toBe(true)
    for (const of of ['records', 'directory'] as const) {
      const { requests, reply } = instant(of, count)
      for (const request of requests) {
        const fields = fieldsOfRequest(request)
        expect(fields).toHaveLength(9 + 5 * count)
        expect(fields.at(-1)!.value).toBe(String(requests.indexOf(request)))
      }
      const fields = fieldsOfReply(reply, manifest)
      expect(fields.at(-1)!.at + fields.at(-1)!.bytes).toBe(reply.length)
    }
  })

  test('of anything else are none', () => {
    const { requests, reply } = instant('records', 1)
    expect(() => fieldsOfRequest(requests[0].subarray(1))).toThrow()
    expect(() => fieldsOfRequest(requests[0].subarray(0, -1))).toThrow()
    expect(() => fieldsOfReply(reply.subarray(0, -1), manifest)).toThrow(RangeError)
  })
})

describe('checks', () => {
  const options = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store', redirect: 'manual' } as const
  const key = new TextEncoder().encode('left-pad')
  const fingerprint = core.fingerprint(key)

  function seen(seed: number, found: boolean, change: (exchange: Exchange) => Exchange = exchange => exchange): Seen {
    const exchanges = (['directory', 'records'] as const).flatMap((of, step) => {
      const { requests, reply } = instant(of, 1, 2 * seed + step)
      return (['A', 'B'] as const).map(
        (server, i): Exchange =>
          change({
            ...{ server, path: '/v1/instant', options, sent: requests[i]!, from: 0, to: 1 },
            reply: { bytes: reply, encoding: null },
          }),
      )
    })
    return { typed: 'left-pad', keys: [key], fingerprints: [fingerprint], found, exchanges }
  }
  const failing = (now: Seen, before?: Seen) =>
    check(now, before).flatMap(({ holds, says }) => (holds === false ? [says] : []))

  test('hold of lookups as they are, found and not', () => {
    expect(check(seen(1, true), undefined)).toHaveLength(4)
    expect(check(seen(2, false), seen(1, true)).map(({ holds }) => holds)).toEqual(Array(6).fill(true))
  })

  test.each<[string, (exchange: Exchange) => Exchange, RegExp]>([
    [
      'a longer question to one server',
      e => (e.server === 'A' ? { ...e, sent: longer(e.sent) } : e),
      /server A and server B have the same/,
    ],
    [
      'a longer answer of one server',
      e => (e.server === 'B' ? { ...e, reply: packed(e, null, 1) } : e),
      /server A and server B have the same/,
    ],
    ['the key in a request', e => ({ ...e, sent: withIn(e.sent, key) }), /is in no request/],
    ['its fingerprint in a request', e => ({ ...e, sent: withIn(e.sent, fingerprint) }), /is in no request/],
    ['the key in a path', e => ({ ...e, path: `/v1/left-pad` }), /is in no request/],
    ['cookies', e => ({ ...e, options: { ...options, credentials: 'include' } }), /cookie/],
    ['a header', e => ({ ...e, options: { ...options, headers: { id: '1' } } }), /cookie/],
    ['a compressed answer', e => ({ ...e, reply: packed(e, 'gzip', 0) }), /compressed/],
  ])('notice %s', (_, change, says) => {
    const found = failing(seen(1, true, change))
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(says)
  })

  test('notice an absent key that is cheaper than one that is there, and bytes that are sent again', () => {
    const shorter = seen(2, false)
    expect(failing({ ...shorter, exchanges: shorter.exchanges.slice(0, 2) }, seen(1, true))).toEqual([
      expect.stringContaining('one that does not have the same lengths'),
    ])
    expect(failing(seen(1, false), seen(1, true))).toEqual([expect.stringContaining('no random bytes in common')])
  })

  test('say so where a word is too short to tell', () => {
    const short = { ...seen(1, true), keys: [Uint8Array.of(7)] }
    expect(check(short, undefined).map(({ holds }) => holds)).toEqual([true, undefined, true, true])
  })

  const longer = (bytes: Uint8Array) => Uint8Array.of(...bytes, 0)
  const packed = ({ reply }: Exchange, encoding: string | null, more: number) => ({
    bytes: new Uint8Array(reply!.bytes.length + more),
    encoding,
  })
  const withIn = (bytes: Uint8Array, inner: Uint8Array) => {
    const copy = bytes.slice()
    copy.set(inner, 50)
    return copy
  }
})
