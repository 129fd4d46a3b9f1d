import fc from 'fast-check'
import { Check } from 'typebox/value'
import { describe, expect, test } from 'vitest'
import { ERROR_CODES, fromHex, type Info, parseErrorReply, parseInfo, toHex, WireError } from '../src/index.js'
import { ErrorReplySchema, InfoSchema, ManifestQuerySchema } from '../src/schemas.js'

const info: Info = {
  format: 1,
  software: 'keyhush/0.1.0',
  database: 'cd'.repeat(16),
  epochs: [{ generation: 1, epoch: 1, manifest: 'ab'.repeat(32) }],
  offers: {
    ...{ proofs: ['merkle'], updates: true, push: true, blobs: true, fence: true },
    ...{ instant: true, single: true, oneServer: true, history: 64 },
  },
  signatures: [{ publicKey: '01'.repeat(32), generation: 1, epoch: 1, signature: '23'.repeat(64) }],
}

/** Calls `parse` and lets only WireError pass. */
function refusedOr<T>(parse: () => T): T | undefined {
  try {
    return parse()
  } catch (error) {
    if (error instanceof WireError) return undefined
    throw error
  }
}

describe('/v1/info', () => {
  test('is read as it was written, and what it does not know is left out', () => {
    expect(parseInfo(JSON.parse(JSON.stringify(info)))).toEqual(info)
    expect(parseInfo({ ...info, future: 1 })).toEqual(info)
  })

  test('any JSON is refused with a WireError or is valid by the schema too', () => {
    fc.assert(
      fc.property(fc.jsonValue(), json => {
        expect(refusedOr(() => parseInfo(json))).toBeUndefined()
      }),
    )
    const keys = Object.keys(info) as (keyof Info)[]
    fc.assert(
      fc.property(fc.constantFrom(...keys), fc.jsonValue(), (key, value) => {
        const parsed = refusedOr(() => parseInfo({ ...info, [key]: value }))
        if (parsed !== undefined) expect(Check(InfoSchema, parsed)).toBe(true)
      }),
    )
  })

  test('of another format is a version error', () => {
    expect(() => parseInfo({ ...info, format: 2 })).toThrow(expect.objectContaining({ code: 'version' }))
  })
})

describe('an error reply', () => {
  test('names the newest epoch, or the line, where its code has them', () => {
    const behind = { code: 'epoch_unknown', message: 'why', generation: 1, epoch: 7 }
    expect(parseErrorReply(JSON.stringify(behind))).toEqual(behind)
    const refused = { code: 'batch_refused', message: 'why', line: 3 }
    expect(parseErrorReply(JSON.stringify(refused))).toEqual(refused)
    expect(parseErrorReply(JSON.stringify({ ...refused, epoch: 2 }))).toEqual(refused)
    for (const epoch of [0, -1, 1.5, '7', null, 2 ** 32]) {
      expect(() => parseErrorReply(JSON.stringify({ ...behind, epoch }))).toThrow(WireError)
    }
    expect(() => parseErrorReply('{"code":"epoch_unknown","message":"why","generation":1}')).toThrow(WireError)
  })

  test('names databases by their paths, and nothing else', () => {
    const reply = { code: 'not_found', message: 'why', databases: ['/', '/a-list', '/b.2'] }
    expect(parseErrorReply(JSON.stringify(reply))).toEqual(reply)
    expect(Check(ErrorReplySchema, reply)).toBe(true)
    expect(parseErrorReply(JSON.stringify({ ...reply, code: 'internal' }))).toEqual({
      code: 'internal',
      message: 'why',
    })
    const many = Array.from({ length: 17 }, (_, i) => `/list-${i}`)
    for (const databases of [
      many,
      ['list'],
      ['/a/b'],
      ['/a b'],
      ['/<b>'],
      [`/${'a'.repeat(101)}`],
      [1],
      'list',
      null,
      {},
    ]) {
      expect(() => parseErrorReply(JSON.stringify({ ...reply, databases }))).toThrow(WireError)
    }
  })

  test('of every code is read as it was written', () => {
    for (const code of Object.keys(ERROR_CODES)) {
      const reply = { code, message: 'why' }
      expect(parseErrorReply(JSON.stringify(reply))).toEqual(reply)
      expect(Check(ErrorReplySchema, reply)).toBe(true)
    }
  })

  test('any text is refused with a WireError or is valid by the schema too', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), text => {
        const reply = refusedOr(() => parseErrorReply(text))
        if (reply !== undefined) expect(Check(ErrorReplySchema, reply)).toBe(true)
      }),
    )
    for (const text of [
      '{"code":"toString","message":""}',
      '{"code":"internal"}',
      JSON.stringify({ code: 'internal', message: 'x'.repeat(1025) }),
      'null',
      '',
    ]) {
      expect(() => parseErrorReply(text)).toThrow(WireError)
    }
  })
})

test('a manifest is asked for by generation and epoch, both from 1', () => {
  expect(Check(ManifestQuerySchema, {})).toBe(true)
  expect(Check(ManifestQuerySchema, { generation: '1', epoch: '4294967295' })).toBe(true)
  expect(Check(ManifestQuerySchema, { generation: '01', epoch: '1' })).toBe(false)
})

describe('hex', () => {
  test('round-trips', () => {
    fc.assert(
      fc.property(fc.uint8Array(), bytes => {
        expect(fromHex(toHex(bytes))).toEqual(bytes)
      }),
    )
  })

  test.each(['a', 'AB', '0g', ' 00', '0x00', '00\n'])('refuses %j', text => {
    expect(() => fromHex(text)).toThrow(WireError)
  })
})
