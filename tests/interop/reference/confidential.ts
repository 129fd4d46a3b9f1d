// docs/protocol/confidential.md: keys and values of a list, shares, what an evaluator answers, and what a client makes of it.

import { equalBytes } from '@noble/ciphers/utils.js'
import { blake3 } from '@noble/hashes/blake3.js'
import { bytesToHex, concatBytes, utf8ToBytes } from '@noble/hashes/utils.js'
import { isZero, Reader, Writer } from './bytes.js'
import { databaseId } from './hash.js'
import { bytesOf, finalized, hashToGroup, inverse, littleEndian, Point, scalarOf } from './ristretto255.js'

const derive = (what: string, material: Uint8Array, dkLen = 32) =>
  blake3(material, { context: utf8ToBytes(`keyhush 2026-12 confidential ${what} v1`), dkLen })

export const inputOf = (key: Uint8Array) => derive('input', key)

export const evaluate = (secret: bigint, input: Uint8Array) => finalized(input, hashToGroup(input).times(secret))

/** key′ */
export const listKey = (y: Uint8Array) => `~${bytesToHex(derive('key', y))}`

/** value′; `fresh`: 8 random bytes. `most`: v. */
export function seal(y: Uint8Array, value: Uint8Array, fresh: Uint8Array, most: number): Uint8Array {
  const padding = new Uint8Array(most - value.length)
  return sealText(y, new Writer().put(fresh).u16(value.length).put(value, padding).bytes())
}

export function sealText(y: Uint8Array, text: Uint8Array): Uint8Array {
  const salt = saltOf(y, text)
  return concatBytes(salt, masked(y, salt, text))
}

/** Throws for what no owner has sealed. */
export function unseal(y: Uint8Array, sealed: Uint8Array): Uint8Array {
  const reader = new Reader(sealed)
  const salt = reader.take(12)
  const text = masked(y, salt, reader.take(sealed.length - 12))
  if (!equalBytes(saltOf(y, text), salt)) throw new Error('another salt')
  const inner = new Reader(text)
  inner.take(8)
  return inner.take(inner.u16())
}

const saltOf = (y: Uint8Array, text: Uint8Array) =>
  blake3(concatBytes(utf8ToBytes('salt'), text), { key: derive('value', y) }).slice(0, 12)

const masked = (y: Uint8Array, salt: Uint8Array, text: Uint8Array) => maskedBy(derive('value', y), salt, text)

export const evaluationKey = (secret: bigint) => Point.generator.times(secret).encode()

export const idUnder = (key: Uint8Array, kind = '') =>
  concatBytes(utf8ToBytes('conf'), databaseId(utf8ToBytes(`confidential-${kind}${bytesToHex(key)}`)).slice(4))

/** f(at), of a polynomial with these coefficients, f(0) first. */
export const shareAt = (coefficients: readonly bigint[], at: number) =>
  scalarOf(coefficients.reduce((sum, each, power) => sum + each * BigInt(at) ** BigInt(power), 0n))

/** D and cⱼ. Another way than the shipped one's: over one denominator, which is then made least. */
export function combination(numbers: readonly number[]): { readonly scale: bigint; readonly weights: bigint[] } {
  const without = (own: number) => numbers.filter(other => other !== own)
  const product = (factors: readonly number[]) => factors.reduce((all, each) => all * BigInt(each), 1n)
  const under = numbers.map(own => product(without(own).map(other => other - own)))
  const scale = under.reduce((all, each) => all * each, 1n)
  const weights = numbers.map((own, i) => (product(without(own)) * scale) / under[i]!)
  let divisor = scale < 0n ? -scale : scale
  for (const weight of weights) for (let rest = weight; rest !== 0n; ) [divisor, rest] = [rest, divisor % rest]
  if (scale < 0n !== divisor < 0n) divisor = -divisor
  return { scale: scale / divisor, weights: weights.map(weight => weight / divisor) }
}

export interface Request {
  readonly databaseId: Uint8Array
  readonly deal: number
  readonly elements: readonly Uint8Array[]
  readonly token: Uint8Array
}

export interface Reply extends Omit<Request, 'token'> {
  readonly number: number
}

export function encodeRequest({ databaseId, deal, elements, token }: Request): Uint8Array {
  const writer = new Writer().put('PIRV').u16(1).u16(elements.length).put(databaseId).u16(token.length).u32(deal).u16(0)
  return writer.put(...elements, token).bytes()
}

/** Throws for what is malformed. */
export function decodeRequest(bytes: Uint8Array, counts: [number, number] = [2, 65]): Request {
  const reader = new Reader(bytes)
  const count = head(reader, 'PIRV', counts)
  const [databaseId, tokenBytes, deal] = [reader.take(16), reader.u16(), reader.u32()]
  reader.expect('zeros', new Uint8Array(2))
  if (tokenBytes > 1024) throw new Error('a token of more than 1024 bytes')
  const request = { databaseId, deal, elements: elementsOf(reader, count), token: reader.take(tokenBytes) }
  reader.end()
  return request
}

export function encodeReply({ databaseId, deal, number, elements }: Reply): Uint8Array {
  const writer = new Writer()
    .put('PIRE')
    .u16(1)
    .u16(elements.length)
    .put(Uint8Array.of(number, 0, 0, 0))
    .u32(deal)
  return writer.put(databaseId, ...elements).bytes()
}

/** Throws for what is malformed. */
export function decodeReply(bytes: Uint8Array, counts: [number, number] = [2, 65]): Reply {
  const reader = new Reader(bytes)
  const count = head(reader, 'PIRE', counts)
  const [number] = reader.take(1) as Uint8Array & [number]
  reader.expect('zeros', new Uint8Array(3))
  const [deal, databaseId] = [reader.u32(), reader.take(16)]
  if (number < 1 || number > 8 || deal === 0) throw new Error('no number of a share, or of a deal')
  const elements = elementsOf(reader, count)
  reader.end()
  return { databaseId, deal, number, elements }
}

function head(reader: Reader, magic: string, [least, most]: [number, number]): number {
  reader.expect('magic', magic)
  if (reader.u16() !== 1) throw new Error('unknown format')
  const count = reader.u16()
  if (count < least || count > most) throw new Error('fewer elements than the route takes, or more')
  return count
}

function elementsOf(reader: Reader, count: number): Uint8Array[] {
  return Array.from({ length: count }, () => {
    const element = reader.take(32)
    Point.decode(element)
    if (isZero(element)) throw new Error('the identity')
    return element
  })
}

export interface Share {
  readonly number: number
  readonly deal: number
  readonly secret: bigint
}

/** An evaluator's reply to a request for its database. */
export function answer(
  request: Uint8Array,
  { number, deal, secret }: Share,
  counts: [number, number] = [2, 65],
): Uint8Array {
  const { databaseId, elements } = decodeRequest(request, counts)
  const products = elements.map(element => Point.decode(element).times(secret).encode())
  return encodeReply({ databaseId, deal, number, elements: products })
}

/** What a client draws for an evaluation: rᵢ, aᵢ and b. */
export interface Drawn {
  readonly blinds: readonly bigint[]
  readonly checks: readonly bigint[]
  readonly checkBlind: bigint
}

/** As our client draws. */
export function draw(entropy: Uint8Array, inputs: readonly Uint8Array[]): Drawn {
  const reader = new Reader(derive('blinds', concatBytes(entropy, ...inputs), 80 * inputs.length + 64))
  const scalar = () => scalarOf(littleEndian(reader.take(64)))
  const pairs = inputs.map(() => [scalar(), littleEndian(reader.take(16))] as const)
  return { blinds: pairs.map(([blind]) => blind), checks: pairs.map(([, check]) => check), checkBlind: scalar() }
}

const checked = (checks: readonly bigint[], elements: readonly Point[]) =>
  elements.reduce((sum, element, i) => sum.add(element.times(checks[i]!)), Point.identity)

/** Bᵢ, and last X. */
export function ask(inputs: readonly Uint8Array[], { blinds, checks, checkBlind }: Drawn): Uint8Array[] {
  const blinded = inputs.map((input, i) => hashToGroup(input).times(blinds[i]!))
  const check = checked(checks, blinded).add(Point.generator.times(checkBlind))
  return [...blinded, check].map(element => element.encode())
}

/** `Evaluate` of each input. Undefined: the replies do not pass the check. */
export function finish(
  inputs: readonly Uint8Array[],
  { blinds, checks, checkBlind }: Drawn,
  key: Uint8Array,
  replies: readonly Uint8Array[],
): Uint8Array[] | undefined {
  const read = replies.map(reply => decodeReply(reply))
  const { scale, weights } = combination(read.map(({ number }) => number))
  const sums = Array.from({ length: inputs.length + 1 }, (_, i) =>
    read.reduce((sum, { elements }, j) => sum.add(Point.decode(elements[i]!).times(weights[j]!)), Point.identity),
  )
  const check = sums.pop()!
  if (!check.equals(checked(checks, sums).add(Point.decode(key).times(checkBlind * scale)))) return undefined
  return sums.map((sum, i) => finalized(inputs[i]!, sum.times(inverse(scale * blinds[i]!))))
}

/** value′ of a priced list. */
export function sealPriced(secret: bigint, input: Uint8Array, value: Uint8Array, fresh: Uint8Array, most: number) {
  const text = new Writer()
    .u16(value.length)
    .put(value, new Uint8Array(most - value.length))
    .bytes()
  const salt = derive('priced salt', concatBytes(bytesOf(secret), input, fresh, text)).slice(0, 12)
  const e = derive('priced', evaluate(secret, concatBytes(salt, input)))
  return concatBytes(salt, maskedBy(e, salt, text), tagOf(e, text))
}

/** Throws for another evaluation, or other bytes. */
export function unsealPriced(y: Uint8Array, sealed: Uint8Array): Uint8Array {
  const e = derive('priced', y)
  const reader = new Reader(sealed)
  const salt = reader.take(12)
  const text = maskedBy(e, salt, reader.take(sealed.length - 28))
  if (!equalBytes(tagOf(e, text), reader.take(16))) throw new Error('another tag')
  const inner = new Reader(text)
  return inner.take(inner.u16())
}

const tagOf = (e: Uint8Array, text: Uint8Array) =>
  blake3(concatBytes(utf8ToBytes('tag'), text), { key: e }).slice(0, 16)

function maskedBy(e: Uint8Array, salt: Uint8Array, text: Uint8Array): Uint8Array {
  const mask = blake3(salt, { key: e, dkLen: text.length })
  return text.map((byte, i) => byte ^ mask[i]!)
}

/** As our client draws. */
export const drawUnlock = (entropy: Uint8Array, asked: Uint8Array) =>
  scalarOf(littleEndian(derive('blinds', concatBytes(entropy, asked), 64)))

export const askUnlock = (asked: Uint8Array, blind: bigint) => hashToGroup(asked).times(blind).encode()
export const encodeUnlock = encodeRequest
export const answerUnlock = (request: Uint8Array, share: Share) => answer(request, share, [1, 1])

/** `Evaluate` of salt ‖ input, if the replies are honest. */
export function finishUnlock(asked: Uint8Array, entropy: Uint8Array, replies: readonly Uint8Array[]): Uint8Array {
  const read = replies.map(reply => decodeReply(reply, [1, 1]))
  const { scale, weights } = combination(read.map(({ number }) => number))
  const points = read.map(({ elements }, j) => Point.decode(elements[0]!).times(weights[j]!))
  const sum = points.reduce((sum, point) => sum.add(point), Point.identity)
  return finalized(asked, sum.times(inverse(scale * drawUnlock(entropy, asked))))
}
