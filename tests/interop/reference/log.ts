// docs/protocol/witnesses.md: whether a proof holds under a policy, and what a publisher signs of a proof. Another way than the shipped
// one's: lines are read in one pass, and the root is computed from the leaf up (RFC 9162, 2.1.3.2).

import { createHash, createPublicKey, verify } from 'node:crypto'
import { concatBytes, bytesToHex as hex, utf8ToBytes } from '@noble/hashes/utils.js'
import { Writer } from './bytes.js'

export interface Logged {
  readonly databaseId: Uint8Array
  readonly epoch: number
  readonly manifestHash: Uint8Array
}

const sha256 = (...parts: Uint8Array[]) =>
  new Uint8Array(
    createHash('sha256')
      .update(concatBytes(...parts))
      .digest(),
  )

export function entryOf({ databaseId, epoch, manifestHash }: Logged): Uint8Array {
  return new Writer().put('PIRL').u16(1).u16(0).put(databaseId).u32(epoch).u32(0).put(manifestHash).bytes()
}

/** The bytes that a publisher signs for a proof with this BLAKE3 hash. */
export function signedOfProof(databaseId: Uint8Array, epoch: number, hash: Uint8Array): Uint8Array {
  const context = utf8ToBytes('keyhush 2026-11 proof signature v1')
  return concatBytes(context, new Writer().put(databaseId).u32(epoch).put(hash).bytes())
}

interface Key {
  readonly type: number
  readonly key: Uint8Array
}

function decoded(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) throw new Error('base64 in another spelling')
  return bytes
}

/** `name id`, as signatures name it, and the key. */
function keyIn(vkey: string): readonly [string, Key] {
  const [, name, id, key] = /^([^+]+)\+([^+]+)\+(.+)$/.exec(vkey)!
  const bytes = decoded(key!)
  if (hex(sha256(utf8ToBytes(`${name}\n`), bytes)).slice(0, 8) !== id) throw new Error('an id that is not its')
  return [`${name} ${id}`, { type: bytes[0]!, key: bytes.subarray(1) }]
}

function isSigned({ type, key }: Key, body: string, signature: Buffer): boolean {
  const prefix = Buffer.from('302a300506032b6570032100', 'hex')
  const by = createPublicKey({ key: Buffer.concat([prefix, key]), format: 'der', type: 'spki' })
  if (type === 1) return verify(null, utf8ToBytes(body), by, signature)
  const time = signature.readBigUInt64BE()
  return (
    time < 2n ** 63n && verify(null, utf8ToBytes(`cosignature/v1\ntime ${time}\n${body}`), by, signature.subarray(8))
  )
}

/** Throws unless the proof holds. Of policies it knows one log, witnesses, and one group that is the quorum. */
export function checkProof(text: string, logged: Logged, policy: string): void {
  const rows = policy.split('\n').map(line => line.trim().split(/\s+/))
  const of = (keyword: string) => rows.filter(([first]) => first === keyword)
  const [origin, log] = keyIn(of('log')[0]![1]!)
  const witnesses = new Map(of('witness').map(([, name, vkey]) => [name!, keyIn(vkey!)] as const))
  const [[, , least, ...members]] = of('group') as [string[]]

  if ([...text].some(letter => letter < ' ' && letter !== '\n')) throw new Error('a control character')
  const lines = text.split('\n')
  const next = () => {
    const line = lines.shift()
    if (line === undefined) throw new Error('a text that ends early')
    return line
  }
  if (next() !== 'c2sp.org/tlog-proof@v1') throw new Error('no proof')
  if (next() !== `index ${logged.epoch - 1}`) throw new Error('another index')
  const path: Uint8Array[] = []
  for (let line = next(); line !== ''; line = next()) path.push(decoded(line))
  const [name, size, root, end] = [next(), next(), next(), next()]
  if (end !== '' || `${name} ${origin.split(' ')[1]}` !== origin) throw new Error('another log, or more lines')
  const known = new Map([[origin, log], ...witnesses.values()])
  const signed = new Set<string>()
  if (lines.pop() !== '') throw new Error('a line that is cut')
  for (const line of lines) {
    const [dash, who, signature, ...more] = line.split(' ')
    const bytes = decoded(signature ?? '-')
    if (dash !== '—' || more.length > 0 || !who || /[+\s]/.test(who) || bytes.length < 5)
      throw new Error('no signature')
    const by = `${who} ${hex(bytes.subarray(0, 4))}`
    const key = known.get(by)
    if (key === undefined) continue
    const isWhole = bytes.length === (key.type === 1 ? 68 : 76)
    if (signed.has(by) || !isWhole || !isSigned(key, `${name}\n${size}\n${root}\n`, bytes.subarray(4)))
      throw new Error('a signature twice, or a wrong one')
    signed.add(by)
  }
  const count = members.filter(member => signed.has(witnesses.get(member)![0])).length
  if (!signed.has(origin) || count < Number(least)) throw new Error('too few have signed')

  if (!/^[1-9]\d*$/.test(size) || path.some(({ length }) => length !== 32)) throw new Error('no checkpoint')
  let [fn, sn] = [BigInt(logged.epoch - 1), BigInt(size) - 1n]
  if (fn > sn) throw new Error('an index behind the end')
  let hash = sha256(Uint8Array.of(0), entryOf(logged))
  for (const sibling of path) {
    if (sn === 0n) throw new Error('a path that is too long')
    if (fn % 2n === 1n || fn === sn) {
      hash = sha256(Uint8Array.of(1), sibling, hash)
      while (fn % 2n === 0n && fn !== 0n) [fn, sn] = [fn / 2n, sn / 2n]
    } else hash = sha256(Uint8Array.of(1), hash, sibling)
    ;[fn, sn] = [fn / 2n, sn / 2n]
  }
  if (sn !== 0n || hex(hash) !== hex(decoded(root))) throw new Error('another entry')
}
