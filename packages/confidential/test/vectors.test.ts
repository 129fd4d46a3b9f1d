// Holds the client's half and the independent reference to the shared vectors, and to each other on random bytes.
//
// After a deliberate change of format, write the vectors anew (the reference does):
// `KEYHUSH_WRITE_VECTORS=1 npx vitest run packages/confidential/test/vectors.test.ts`.

import { writeFileSync } from 'node:fs'
import { concatBytes, bytesToHex as hex, utf8ToBytes as text, hexToBytes as unhex } from '@noble/hashes/utils.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as reference from '../../../tests/interop/reference/confidential.js'
import { bytesOf, finalized, hashToGroup, littleEndian, Point } from '../../../tests/interop/reference/ristretto255.js'
import { put, readVectors, stream, vectorsFile } from '../../../tests/interop/vectors.js'
import { THOROUGH } from '../../../tests/support/thorough.js'
import { Evaluation, elementsOf, Unlocking } from '../src/client/evaluation.js'
import { databaseIdOf, inputOf, listKeyOf, opened, unlocked, unlockingOf } from '../src/wire/derive.js'
import { decodeReply, decodeRequest, encodeReply, encodeRequest, UNLOCK } from '../src/wire/messages.js'
import { combinationOf } from '../src/wire/shares.js'
import { RFC_9497 } from './support/rfc9497.js'

const scalar = (label: string) => littleEndian(stream(label, 31))
const number = (bytes: string) => littleEndian(unhex(bytes))
const scalarHex = (value: bigint) => hex(bytesOf(value))

function makeVectors() {
  const [secret, unlockSecret, valueBytes] = [scalar('secret'), scalar('unlock secret'), 12]
  const key = reference.evaluationKey(secret)
  const databaseId = reference.idUnder(key)
  const entry = (name: string, value: string) => {
    const input = reference.inputOf(text(name))
    const y = reference.evaluate(secret, input)
    const fresh = stream(`fresh ${name}`, 8)
    return {
      ...{ key: hex(text(name)), value: hex(text(value)), fresh: hex(fresh) },
      ...{ input: hex(input), evaluated: hex(y), listKey: reference.listKey(y) },
      sealed: hex(reference.seal(y, text(value), fresh, valueBytes)),
    }
  }
  const entries = [
    entry('a', ''),
    entry('key 1', 'value 1'),
    entry('ключ', 'of 12 bytes.'),
    entry('k'.repeat(300), '3'),
  ]
  const [, { evaluated, sealed }] = entries as [unknown, (typeof entries)[number]]
  const refusedValue = (because: string, by: string) => ({ because, evaluated, sealed: by })
  const y = unhex(evaluated)
  const tooLong = concatBytes(new Uint8Array(8), Uint8Array.of(valueBytes + 1, 0), new Uint8Array(valueBytes))

  const evaluation = (
    [atLeast, evaluators]: readonly [number, number],
    sets: readonly number[][],
    [deal, token]: readonly [number, string],
    keys: readonly string[],
  ) => {
    const name = `${atLeast} of ${evaluators}`
    const coefficients = [secret, ...Array.from({ length: atLeast - 1 }, (_, i) => scalar(`${name}, ${i}`))]
    const shares = Array.from({ length: evaluators }, (_, i) => reference.shareAt(coefficients, i + 1))
    const entropy = stream(`entropy ${name}`, 32)
    const inputs = keys.map(each => reference.inputOf(text(each)))
    const drawn = reference.draw(entropy, inputs)
    const request = reference.encodeRequest({
      ...{ databaseId, deal: token === '' ? 0 : deal, token: text(token) },
      elements: reference.ask(inputs, drawn),
    })
    const replies = shares.map((secret, i) => reference.answer(request, { number: i + 1, deal, secret }))
    const [first] = sets as [number[]]
    const honest = first.map(own => replies[own - 1]!)
    const changed = (because: string, change: (elements: readonly Uint8Array[], by: number) => Uint8Array[]) => ({
      because,
      replies: honest.map((bytes, by) => {
        const reply = reference.decodeReply(bytes)
        return hex(reference.encodeReply({ ...reply, elements: change(reply.elements, by) }))
      }),
    })
    const more = (bytes: Uint8Array) => Point.decode(bytes).add(Point.generator).encode()
    const lies = [
      changed('one adds G to its first element', ([head, ...rest], by) => [by ? head! : more(head!), ...rest]),
      changed('one adds G to its last element', (all, by) => [
        ...all.slice(0, -1),
        by ? all.at(-1)! : more(all.at(-1)!),
      ]),
      changed('all turn their elements round', all => [...all].reverse()),
      changed('all have another secret', all => all.map(each => Point.decode(each).times(2n).encode())),
      ...(atLeast > 1 ? [{ because: 'one share less', replies: honest.slice(1).map(hex) }] : []),
    ]
    return {
      ...{ evaluators, atLeast, coefficients: coefficients.map(scalarHex), shares: shares.map(scalarHex) },
      ...{ deal, keys: keys.map(each => hex(text(each))), token: hex(text(token)), entropy: hex(entropy) },
      ...{ blinds: drawn.blinds.map(scalarHex), checks: drawn.checks.map(scalarHex) },
      ...{ checkBlind: scalarHex(drawn.checkBlind), request: hex(request), replies: replies.map(hex) },
      sets: sets.map(numbers => {
        const { scale, weights } = reference.combination(numbers)
        return { numbers, scale: Number(scale), weights: weights.map(Number) }
      }),
      outputs: inputs.map(input => hex(reference.evaluate(secret, input))),
      lies,
    }
  }
  const evaluations = [
    evaluation([1, 1], [[1]], [1, ''], ['key 1']),
    evaluation([2, 2], [[1, 2]], [1, 'token'], ['key 1', 'nobody']),
    evaluation(
      [2, 3],
      [
        [1, 2],
        [2, 3],
        [1, 3],
        [3, 1],
      ],
      [4, ''],
      ['nobody', 'ключ'],
    ),
    evaluation(
      [5, 8],
      [
        [1, 2, 3, 4, 5],
        [2, 4, 5, 7, 8],
      ],
      [2, 'a token'],
      ['a'],
    ),
  ]
  const [{ request: q, replies }] = evaluations as [(typeof evaluations)[number]]
  const [r] = replies as [string]
  const refused = (kind: 'request' | 'reply', because: string, bytes: string) => ({ kind, because, bytes })
  const priced = (name: string, value: string) => {
    const input = reference.inputOf(text(name))
    const fresh = stream(`priced fresh ${name}`, 8)
    const sealed = reference.sealPriced(unlockSecret, input, text(value), fresh, valueBytes)
    const asked = concatBytes(sealed.slice(0, 12), input)
    return {
      ...{ key: hex(text(name)), value: hex(text(value)), fresh: hex(fresh), asked: hex(asked), sealed: hex(sealed) },
      evaluated: hex(reference.evaluate(unlockSecret, asked)),
    }
  }
  const pricedEntries = [priced('a', ''), priced('key 1', 'value 1'), priced('ключ', 'of 12 bytes.')]
  const unlocking = () => {
    const asked = unhex(pricedEntries[1]!.asked)
    const [entropy, token] = [stream('entropy unlock', 32), text('paid')]
    const request = reference.encodeUnlock({
      ...{ databaseId: reference.idUnder(key, 'priced-'), deal: 3, token },
      elements: [reference.askUnlock(asked, reference.drawUnlock(entropy, asked))],
    })
    const coefficients = [unlockSecret, scalar('unlock 1')]
    const shares = [1, 2].map(number => reference.shareAt(coefficients, number))
    const replies = shares.map((secret, i) => reference.answerUnlock(request, { number: i + 1, deal: 3, secret }))
    return {
      ...{ asked: hex(asked), entropy: hex(entropy), token: hex(token), deal: 3, shares: shares.map(scalarHex) },
      ...{ request: hex(request), replies: replies.map(hex) },
    }
  }
  return {
    priced: {
      ...{ secret: scalarHex(unlockSecret), databaseId: hex(reference.idUnder(key, 'priced-')), valueBytes },
      ...{ entries: pricedEntries, unlock: unlocking() },
    },
    list: {
      secret: scalarHex(secret),
      ...{ evaluationKey: hex(key), databaseId: hex(databaseId), valueBytes, entries },
      refused: [
        refusedValue('another salt', put(sealed, 0, 'ff')),
        refusedValue('a changed byte of the value', put(sealed, 30, sealed.startsWith('00', 60) ? 'ff' : '00')),
        refusedValue('cut', sealed.slice(0, -2)),
        refusedValue('too short to have a length', sealed.slice(0, 2 * 21)),
        refusedValue('empty', ''),
        refusedValue('a length above what follows', hex(reference.sealText(y, tooLong))),
        { ...refusedValue('of another key', sealed), evaluated: entries[0]!.evaluated },
      ],
    },
    evaluations,
    refused: [
      ...(['request', 'reply'] as const).flatMap(kind => {
        const bytes = kind === 'request' ? q : r
        return [
          refused(kind, 'another magic', put(bytes, 3, '00')),
          refused(kind, 'another format', put(bytes, 4, '02')),
          refused(kind, 'one element', put(bytes, 6, '01').slice(0, -64)),
          refused(kind, '66 elements', `${put(bytes, 6, '42').slice(0, 64)}${bytes.slice(64, 128).repeat(66)}`),
          refused(kind, 'cut', bytes.slice(0, -2)),
          refused(kind, 'longer', `${bytes}00`),
          refused(kind, 'without a header', bytes.slice(0, 62)),
          refused(kind, 'the identity', put(bytes, 32, '00'.repeat(32))),
          refused(kind, 'an element above the field', put(bytes, 32, 'ff'.repeat(32))),
          refused(kind, 'a negative element', put(bytes, 32, `01${'00'.repeat(31)}`)),
          refused(
            kind,
            'bytes that are no element',
            put(bytes, 32, '26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371'),
          ),
        ]
      }),
      refused('request', 'a token that is not there', put(q, 24, '01')),
      refused('request', 'a token of 1025 bytes', put(q, 24, '0104') + '00'.repeat(1025)),
      refused('request', 'a byte that has to be 0', put(q, 31, '01')),
      refused('reply', 'share 0', put(r, 8, '00')),
      refused('reply', 'share 9', put(r, 8, '09')),
      refused('reply', 'bytes that have to be 0', put(r, 11, '01')),
      refused('reply', 'deal 0', put(r, 12, '00')),
    ],
  }
}

if (process.env['KEYHUSH_WRITE_VECTORS']) {
  writeFileSync(vectorsFile('confidential'), `${JSON.stringify(makeVectors(), undefined, 1)}\n`)
}
const vectors = readVectors<ReturnType<typeof makeVectors>>('confidential')
const { list, evaluations } = vectors
const key = unhex(list.evaluationKey)

/** What throws, or gives nothing, refuses. */
function accepts(read: () => unknown): boolean {
  try {
    return read() !== undefined
  } catch {
    return false
  }
}
const shipped = {
  request: (bytes: Uint8Array) => elementsOf(decodeRequest(bytes).elements),
  reply: (bytes: Uint8Array) => elementsOf(decodeReply(bytes).elements),
}
const independent = { request: reference.decodeRequest, reply: reference.decodeReply }

/** A client that has drawn from this entropy. */
function clientOf(inputs: readonly Uint8Array[], entropy: Uint8Array) {
  const evaluation = new Evaluation(inputs, entropy)
  return {
    elements: evaluation.elements,
    finish: (replies: readonly Uint8Array[]) => {
      const products = replies.map(reply => decodeReply(reply))
      return evaluation.finish(
        elementsOf(key)![0]!,
        products.map(({ number, elements }) => ({ number, points: elementsOf(elements)! })),
      )
    },
  }
}

test('the reference gives the outputs of RFC 9497, and makes these vectors', () => {
  for (const { secret, input, output } of RFC_9497) {
    const product = hashToGroup(unhex(input)).times(littleEndian(unhex(secret)))
    expect(hex(finalized(unhex(input), product))).toBe(output)
  }
  expect(makeVectors()).toEqual(vectors)
})

test('entries of a list: the client derives them, and opens what was sealed for its key alone', () => {
  expect(hex(databaseIdOf(list.evaluationKey, false))).toBe(list.databaseId)
  for (const { key, input, evaluated, listKey, value, sealed } of list.entries) {
    expect(hex(inputOf(unhex(key)))).toBe(input)
    expect(new TextDecoder().decode(listKeyOf(unhex(evaluated)))).toBe(listKey)
    expect(hex(opened(unhex(evaluated), unhex(sealed))!)).toBe(value)
    expect(hex(reference.unseal(unhex(evaluated), unhex(sealed)))).toBe(value)
  }
  for (const { because, evaluated, sealed } of list.refused) {
    const [y, bytes] = [unhex(evaluated), unhex(sealed)]
    expect([because, opened(y, bytes), accepts(() => reference.unseal(y, bytes))]).toEqual([because, undefined, false])
  }
})

test.each(evaluations)('$atLeast of $evaluators: the client asks, checks and unblinds the same', vector => {
  const inputs = vector.keys.map(each => inputOf(unhex(each)))
  const client = clientOf(inputs, unhex(vector.entropy))
  const { deal } = decodeRequest(unhex(vector.request))
  const [databaseId, token] = [unhex(list.databaseId), unhex(vector.token)]
  expect(hex(encodeRequest({ databaseId, deal, elements: client.elements, token }))).toBe(vector.request)
  const replies = vector.replies.map(unhex)
  for (const reply of replies) expect(hex(encodeReply(decodeReply(reply)))).toBe(hex(reply))
  const [blinds, checks] = [vector.blinds.map(number), vector.checks.map(number)]
  const drawn = { blinds, checks, checkBlind: number(vector.checkBlind) }
  for (const { numbers, scale, weights } of vector.sets) {
    expect(combinationOf(numbers)).toEqual({ scale, weights })
    const given = numbers.map(own => replies[own - 1]!)
    for (const found of [client.finish(given), reference.finish(inputs, drawn, key, given)]) {
      expect(found?.map(hex)).toEqual(vector.outputs)
    }
  }
  for (const { because, replies } of vector.lies) {
    const lies = replies.map(unhex)
    const verdicts = [client.finish(lies), reference.finish(inputs, drawn, key, lies)]
    expect([because, ...verdicts]).toEqual([because, undefined, undefined])
  }
})

test('what is malformed is refused by both', () => {
  for (const { kind, because, bytes } of vectors.refused) {
    const verdicts = [shipped, independent].map(readers => accepts(() => readers[kind](unhex(bytes))))
    expect([because, ...verdicts]).toEqual([because, false, false])
  }
})

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length })

test('both read the same of messages that were changed', () => {
  const change = fc.record({
    vector: fc.constantFrom(...evaluations),
    kind: fc.constantFrom('request' as const, 'reply' as const),
    at: fc.oneof(fc.nat(), fc.nat(31)),
    by: fc.oneof(bytes(1), fc.uint8Array({ maxLength: 40 })),
    cut: fc.oneof(fc.constant(0), fc.nat(64)),
  })
  fc.assert(
    fc.property(change, ({ vector, kind, at, by, cut }) => {
      const message = unhex(kind === 'request' ? vector.request : vector.replies[0]!)
      const place = at % message.length
      message.set(by.slice(0, message.length - place), place)
      const sent = message.subarray(0, message.length - cut)
      const verdict = accepts(() => shipped[kind](sent))
      expect(accepts(() => independent[kind](sent))).toBe(verdict)
      if (!verdict) return
      const again =
        kind === 'request'
          ? [encodeRequest(decodeRequest(sent)), reference.encodeRequest(reference.decodeRequest(sent))]
          : [encodeReply(decodeReply(sent)), reference.encodeReply(reference.decodeReply(sent))]
      expect(again.map(hex)).toEqual([hex(sent), hex(sent)])
    }),
    { numRuns: THOROUGH ? 3000 : 300 },
  )
})

test('random evaluations: the client asks what the reference would, and takes what it answers and nothing else', () => {
  const evaluation = fc.record({
    keys: fc.array(fc.uint8Array({ minLength: 1, maxLength: 60 }), { minLength: 1, maxLength: 3 }),
    entropy: bytes(32),
    vector: fc.constantFrom(...evaluations),
    lie: fc.constantFrom(0n, 0n, 1n, -1n, 7n),
    at: fc.nat(),
  })
  fc.assert(
    fc.property(evaluation, ({ keys, entropy, vector, lie, at }) => {
      const inputs = keys.map(inputOf)
      const [client, drawn] = [clientOf(inputs, entropy), reference.draw(entropy, inputs)]
      const elements = reference.ask(inputs, drawn)
      expect(hex(client.elements)).toBe(hex(concatBytes(...elements)))
      const { numbers } = vector.sets[at % vector.sets.length]!
      const request = reference.encodeRequest({
        databaseId: databaseIdOf(hex(key), false),
        deal: 0,
        elements,
        token: entropy,
      })
      const replies = numbers.map(own => {
        const secret = number(vector.shares[own - 1]!)
        const reply = reference.decodeReply(reference.answer(request, { number: own, deal: vector.deal, secret }))
        const changed = reply.elements.map((element, i) =>
          i === at % elements.length ? Point.decode(element).add(Point.generator.times(lie)).encode() : element,
        )
        return reference.encodeReply({ ...reply, elements: changed })
      })
      const outputs = inputs.map(input => hex(reference.evaluate(number(list.secret), input)))
      const expected = lie === 0n ? outputs : undefined
      expect(client.finish(replies)?.map(hex)).toEqual(expected)
      expect(reference.finish(inputs, drawn, key, replies)?.map(hex)).toEqual(expected)
    }),
    { numRuns: THOROUGH ? 100 : 5 },
  )
})

test('priced values are unlocked from their shares, by ours and by the reference', () => {
  const { priced, list } = vectors
  expect(hex(databaseIdOf(list.evaluationKey, true))).toBe(priced.databaseId)
  for (const { key, value, asked, evaluated, sealed } of priced.entries) {
    expect(hex(unlockingOf(unhex(key), unhex(sealed))!)).toBe(asked)
    expect(hex(unlocked(unhex(evaluated), unhex(sealed))!)).toBe(value)
    expect(hex(reference.unsealPriced(unhex(evaluated), unhex(sealed)))).toBe(value)
    for (let bit = 0; bit < 8 * unhex(sealed).length; bit++) {
      const changed = unhex(sealed)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      // Another salt asks for another evaluation.
      if (bit >= 96) expect(unlocked(unhex(evaluated), changed)).toBeUndefined()
      else expect(hex(unlockingOf(unhex(key), changed)!)).not.toBe(asked)
    }
  }
  const { asked, entropy, token, deal, request, replies, shares } = priced.unlock
  const unlocking = new Unlocking(unhex(asked), unhex(entropy))
  const { elements } = unlocking
  const body = { databaseId: unhex(priced.databaseId), deal, elements, token: unhex(token) }
  expect(hex(encodeRequest(body, UNLOCK))).toBe(request)
  expect(() => decodeRequest(unhex(request))).toThrow(/count: expected 2 to 65 elements, got 1/)
  const products = replies.map(reply => {
    const { number, elements } = decodeReply(unhex(reply), UNLOCK)
    return { number, points: elementsOf(elements)! }
  })
  const { evaluated, sealed } = priced.entries.find(entry => entry.asked === asked)!
  expect(hex(unlocking.finish(products))).toBe(evaluated)
  expect(unlocked(unlocking.finish(products.slice(1)), unhex(sealed))).toBeUndefined()
  expect(hex(reference.finishUnlock(unhex(asked), unhex(entropy), replies.map(unhex)))).toBe(evaluated)
  expect(shares).toHaveLength(2)
})
