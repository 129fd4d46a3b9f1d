// What an owner does: keys and shares, lists and batches. The crate and @noble/curves agree.

import { randomBytes } from 'node:crypto'
import { type Stats, statSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createOwnerKey, readShare, recoverOwnerKey, reshare, transform } from '@keyhush/confidential/server'
import { toHex } from '@keyhush/protocol'
import { ristretto255 } from '@noble/curves/ed25519.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../../tests/support/servers.js'
import { readOwnerKey } from '../src/server/files.js'
import { loadSecrets, type Secrets } from '../src/server/module.js'
import { lineBefore } from '../src/server/transform.js'
import { databaseIdOf, inputOf, listKeyOf, opened, SEALED_BYTES } from '../src/wire/derive.js'
import { evaluated, RFC_9497 } from './support/rfc9497.js'

const hex = (text: string) => Uint8Array.from(Buffer.from(text, 'hex'))
const FRESH = new Uint8Array(8)

let secrets: Secrets
let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeAll(async () => {
  ;[secrets, folder] = await Promise.all([loadSecrets(), temporaryFolder()])
})
afterAll(() => folder.remove())

let keys = 0
async function newKey(choices: Partial<Parameters<typeof createOwnerKey>[1]> = {}) {
  const at = join(folder.path, `${++keys}`)
  await mkdir(at)
  const file = join(at, 'owner.key')
  const key = await createOwnerKey(file, { valueBytes: 16, evaluators: 2, atLeast: 2, ...choices })
  return { at, file, key }
}

describe('the crate', () => {
  test.each(RFC_9497)(
    'evaluates as RFC 9497 says: $input',
    ({ secret, input, blinded, evaluated: element, output }) => {
      const handle = new secrets.SecretHandle(hex(secret))
      expect(toHex(handle.multiply(hex(blinded)))).toBe(element)
      const found = evaluated(hex(secret), hex(input))
      expect(toHex(found)).toBe(output)
    },
  )

  test('makes entries that clients open, with @noble/curves', () => {
    for (const length of [0, 1, 15, 16]) {
      const [key, value, secret] = [randomBytes(20), randomBytes(length), secrets.newSecret(randomBytes(64))]
      const entry = new secrets.SecretHandle(secret).entry(key, value, randomBytes(8), 16)
      const output = evaluated(secret, inputOf(key))
      expect(entry.subarray(0, 65)).toEqual(listKeyOf(output))
      expect(entry).toHaveLength(65 + SEALED_BYTES + 16)
      expect(opened(output, entry.subarray(65))).toEqual(Uint8Array.from(value))
    }
  })

  test('each changed bit of a value is noticed, and a value of another key', () => {
    const secret = secrets.newSecret(randomBytes(64))
    const handle = new secrets.SecretHandle(secret)
    const sealed = handle.entry(Buffer.from('a'), Buffer.from('value'), FRESH, 8).subarray(65)
    const output = (key: string) => evaluated(secret, inputOf(Buffer.from(key)))
    expect(opened(output('a'), sealed)).toEqual(Uint8Array.from(Buffer.from('value')))
    for (let bit = 0; bit < 8 * sealed.length; bit++) {
      const changed = sealed.slice()
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(opened(output('a'), changed)).toBeUndefined()
    }
    expect(opened(output('b'), sealed)).toBeUndefined()
    expect(opened(output('a'), sealed.subarray(0, -1))).toBeUndefined()
    expect(opened(output('a'), new Uint8Array(3))).toBeUndefined()
  })

  test('two values never have one mask, though the random source is stuck', () => {
    const handle = new secrets.SecretHandle(secrets.newSecret(randomBytes(64)))
    const masked = (value: string) => handle.entry(Buffer.from('a'), Buffer.from(value), FRESH, 8).subarray(65)
    const [one, other] = [masked('11111111'), masked('22222222')]
    const xor = Uint8Array.from(one.subarray(12), (byte, i) => byte ^ other[12 + i]!)
    // With one mask the difference would be that of the values.
    expect(Buffer.from(xor.subarray(10)).equals(Buffer.alloc(8, 0x31 ^ 0x32))).toBe(false)
  })

  test('refuses secrets and elements that are none', () => {
    expect(() => new secrets.SecretHandle(new Uint8Array(32))).toThrow(/scalar/)
    expect(() => new secrets.SecretHandle(new Uint8Array(32).fill(255))).toThrow(/scalar/)
    expect(() => new secrets.SecretHandle(new Uint8Array(31))).toThrow(/32 bytes/)
    const handle = new secrets.SecretHandle(secrets.newSecret(randomBytes(64)))
    for (const bytes of [new Uint8Array(32), new Uint8Array(32).fill(255), new Uint8Array(33)]) {
      expect(() => handle.multiply(bytes)).toThrow(/element/)
    }
  })

  test('deals shares of which as many as are needed give the secret back, and fewer give another', () => {
    const secret = secrets.newSecret(randomBytes(64))
    for (const [atLeast, count] of [
      [1, 1],
      [1, 3],
      [2, 2],
      [2, 3],
      [5, 8],
      [8, 8],
    ] as const) {
      const shares = secrets.deal(secret, count, randomBytes(64 * (atLeast - 1)))
      const of = (numbers: number[]) =>
        secrets.recover(Uint8Array.from(numbers), Buffer.concat(numbers.map(n => shares.subarray(32 * n - 32, 32 * n))))
      const all = Array.from({ length: count }, (_, i) => i + 1)
      expect(of(all.slice(-atLeast))).toEqual(secret)
      expect(of(all)).toEqual(secret)
      if (atLeast > 1) expect(of(all.slice(1 - atLeast))).not.toEqual(secret)
    }
  })
})

test('fewer shares than are needed say nothing: any guess fits them', () => {
  // With a share of 2 of 2 and all ciphertexts, each secret has a polynomial through the share.
  const { Fn } = ristretto255.Point
  const secret = secrets.newSecret(randomBytes(64))
  const share = Fn.fromBytes(secrets.deal(secret, 2, randomBytes(64)).subarray(0, 32))
  for (let guess = 1n; guess < 20n; guess++) {
    const slope = Fn.sub(share, guess)
    expect(Fn.add(guess, slope)).toBe(share)
  }
})

describe('key files', () => {
  test('are for the owner alone, never overwritten, and name the database', async () => {
    const { at, file, key } = await newKey()
    expect(((await stat(file)).mode & 0o777).toString(8)).toBe('600')
    expect(((await stat(join(at, 'share-2'))).mode & 0o777).toString(8)).toBe('600')
    await expect(createOwnerKey(file, { valueBytes: 1, evaluators: 1, atLeast: 1 })).rejects.toThrow(
      /never overwritten/,
    )
    const read = await readOwnerKey(file)
    expect(toHex(ristretto255.Point.BASE.multiply(ristretto255.Point.Fn.fromBytes(read.secret)).toBytes())).toBe(key)
    expect(databaseIdOf(key, false)).toHaveLength(16)
    await chmod(file, 0o600)
  })

  test('an evaluator refuses an owner key, and an owner a share', async () => {
    const { at, file } = await newKey()
    await expect(readShare(file)).rejects.toThrow(/An owner key must not be at an evaluator/)
    await expect(readOwnerKey(join(at, 'share-1'))).rejects.toThrow(/expected an owner key/)
    await expect(readShare(join(at, 'missing'))).rejects.toThrow(/ENOENT/)
  })

  test('reshare deals other shares of the same secret; recover makes the key file of one deal', async () => {
    const { at, file, key } = await newKey({ evaluators: 3, atLeast: 2 })
    const names = await reshare(file)
    expect(names.map(name => name.slice(at.length + 1))).toEqual([1, 2, 3].map(i => `share-${i}-deal-2`))
    const [old, next] = [await readShare(join(at, 'share-1')), await readShare(names[0]!)]
    expect([old.deal, next.deal, toHex(old.secret) === toHex(next.secret)]).toEqual([1, 2, false])
    const again = join(at, 'again', 'owner.key')
    await mkdir(join(at, 'again'))
    await expect(recoverOwnerKey(again, [join(at, 'share-1'), names[1]!])).rejects.toThrow(/one deal/)
    await expect(recoverOwnerKey(again, [join(at, 'share-1')])).rejects.toThrow(/expected 2 shares .*, got 1/)
    expect(await recoverOwnerKey(again, [join(at, 'share-1'), join(at, 'share-3')])).toBe(key)
    expect(await readOwnerKey(again)).toMatchObject({ deal: 2, valueBytes: 16, evaluators: 3, atLeast: 2 })
  })

  test('a key is written with all of its shares, or not at all', async () => {
    const { at, file } = await newKey()
    const other = join(at, 'other')
    await mkdir(other)
    await writeFile(join(other, 'share-2-deal-2'), '')
    const shares = [join(at, 'share-1'), join(at, 'share-2')]
    await expect(recoverOwnerKey(join(other, 'owner.key'), shares)).rejects.toThrow(/share-2-deal-2: it exists/)
    expect(await readdir(other)).toEqual(['share-2-deal-2'])
    await writeFile(join(at, 'share-2-deal-2'), '')
    await expect(reshare(file)).rejects.toThrow(/share-2-deal-2: it exists/)
    expect((await readdir(at)).filter(name => name.includes('deal'))).toEqual(['share-2-deal-2'])
    expect((await readOwnerKey(file)).deal).toBe(1)
  })

  test('a file that is damaged is refused: its list would be another', async () => {
    const { file } = await newKey()
    const text = await readFile(file, 'utf8')
    const changed = (from: RegExp, to: string) => writeFile(file, text.replace(from, to))
    for (const secret of ['01'.padEnd(64, '0'), '00'.repeat(32), 'ff'.repeat(32)]) {
      await changed(/secret .*/, `secret ${secret}`)
      await expect(readOwnerKey(file)).rejects.toThrow(/damaged file; restore your backup/)
    }
    await changed(/value-bytes 16/, 'value-bytes 999999999')
    await expect(readOwnerKey(file)).rejects.toThrow(/--value-bytes/)
    await writeFile(file, `\ufeff${text.replaceAll('\n', '\r\n')}`)
    expect((await readOwnerKey(file)).valueBytes).toBe(16)
  })

  test('reshare writes through a link to where the key is', async () => {
    const { at, file } = await newKey()
    const link = join(at, 'link.key')
    await symlink(file, link)
    await reshare(link)
    expect((await readOwnerKey(file)).deal).toBe(2)
  })

  test.each([
    [{ valueBytes: -1 }, /--value-bytes/],
    [{ evaluators: 9 }, /--evaluators/],
    [{ atLeast: 3 }, /--at-least/],
  ])('choices out of range are refused: %o', async (choices, said) => {
    await expect(newKey(choices)).rejects.toThrow(said)
  })
})

describe('transform', () => {
  const written = async (at: string, name: string, text: string) => {
    await writeFile(join(at, name), text)
    return join(at, name)
  }

  test('sorts a list, gives values one length, and is never repeated in place', async () => {
    const { at, file } = await newKey()
    const [from, to] = [await written(at, 'list.csv', 'key,value\nb,2\na,\n"c,c",ö\n'), join(at, 'blind.csv')]
    expect(await transform({ from, to, key: file })).toEqual({ entries: 3, what: 'list' })
    const lines = (await readFile(to, 'utf8')).trim().split('\n').slice(1)
    expect(lines.map(line => line.length)).toEqual([1, 1, 1].map(() => 65 + 1 + 4 * Math.ceil((SEALED_BYTES + 16) / 3)))
    expect(lines).toEqual([...lines].sort())
    await expect(transform({ from, to, key: file })).rejects.toThrow(/another run makes another file/)
    const other = join(at, 'other.csv')
    await transform({ from, to: other, key: file })
    const again = (await readFile(other, 'utf8')).trim().split('\n').slice(1)
    expect(again.map(line => line.slice(0, 65))).toEqual(lines.map(line => line.slice(0, 65)))
    expect(again.every((line, i) => line !== lines[i])).toBe(true) // an edit that changes nothing looks like any other
  })

  test('its file gets its contents whole', async () => {
    const { at, file } = await newKey()
    const rows = Array.from({ length: 1000 }, (_, i) => `key ${i},v\n`)
    const [from, to] = [await written(at, 'list.csv', `key,value\n${rows.join('')}`), join(at, 'blind.csv')]
    let meanwhile: Stats | undefined
    const onProgress = () => {
      meanwhile = statSync(to)
    }
    await transform({ from, to, key: file, onProgress })
    // Another file took the name of the empty one.
    expect(meanwhile?.size).toBe(0)
    expect((await stat(to)).ino).not.toBe(meanwhile?.ino)
    expect((await readFile(to, 'utf8')).split('\n')).toHaveLength(1002)
  })

  test('keeps the order of changes to one key, and sorts the rest', async () => {
    const { at, file } = await newKey()
    const changes = [
      { op: 'delete', key: 'z' },
      { op: 'add', key: 'z', value: 'again' },
      { op: 'edit', key: 'a', value: '1' },
    ]
    const from = await written(at, 'changes.jsonl', changes.map(each => `${JSON.stringify(each)}\n`).join(''))
    const to = join(at, 'batch.jsonl')
    expect(await transform({ from, to, key: file })).toEqual({ entries: 3, what: 'batch' })
    const lines = (await readFile(to, 'utf8'))
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(lines.map(({ key }) => key)).toEqual(lines.map(({ key }) => key).sort())
    expect(lines.filter(({ op }) => op !== 'edit').map(({ op }) => op)).toEqual(['delete', 'add'])
  })

  test('makes a batch of what differs from the list before, and says which line a line comes from', async () => {
    const { at, file: key } = await newKey()
    const since = await written(at, 'old.csv', 'key,value\nsame,1\nedited,1\ngone,1\n')
    const [from, to] = [await written(at, 'new.csv', 'key,value\nedited,2\nnew,1\nsame,1\n'), join(at, 'batch.jsonl')]
    const cut = /new\.csv: expected a file that deletes at most a tenth of the 3 keys, got one that deletes 1/
    await expect(transform({ from, since, to, key })).rejects.toThrow(cut)
    await expect(stat(to)).rejects.toThrow(/ENOENT/)
    expect(await transform({ from, since, to, key, allowDeletes: 1 })).toEqual({ entries: 3, what: 'batch' })
    const lines = (await readFile(to, 'utf8')).trim().split('\n')
    const origins = { edit: 2, add: 3, delete: undefined }
    for (const [i, line] of lines.entries()) {
      const { op, value } = JSON.parse(line) as { op: keyof typeof origins; value?: string }
      expect([await lineBefore(i + 1, { from, since, key }), value === undefined]).toEqual([
        origins[op],
        op === 'delete',
      ])
    }
    expect(new Set(lines.map(line => JSON.parse(line).op)).size).toBe(3)
    await expect(lineBefore(4, { from, since, key })).rejects.toThrow(/a line from 1 to 3, got 4/)
    const none = join(at, 'none.jsonl')
    expect(await transform({ from, since: from, to: none, key })).toEqual({ entries: 0, what: 'batch' })
    await expect(stat(none)).rejects.toThrow(/ENOENT/)
  })

  test('a set of keys is a list without values', async () => {
    const { at, file: key } = await newKey({ valueBytes: 0 })
    const to = join(at, 'blind.csv')
    expect(await transform({ from: await written(at, 'set.txt', 'a\n\nb\n'), to, key })).toMatchObject({ entries: 2 })
    expect((await readFile(to, 'utf8')).trim().split('\n')).toHaveLength(3)
  })

  test.each([
    ['list.csv', 'key,value\na,12345678901234567\n', /list\.csv:2: expected a value of .* 16 bytes, got 17/],
    ['list.csv', 'key,value\n,1\n', /list\.csv:2: expected a key/],
    ['list.csv', 'key,value\n', /expected entries, got none/],
    ['list.csv', 'key,value\na,1\nb,1\na,2\n', /list\.csv:4: the same key as on line 2/],
    ['list.bin', 'a\n', /expected a name in csv, tsv, txt or jsonl/],
    ['list.jsonl', '{"key":"a"}\n', /list\.jsonl:1: .*"value"/],
    ['batch.jsonl', '{"op":"add","key":"a"}\n', /batch\.jsonl:1: expected \{"op"/],
    ['batch.jsonl', '{"op":"delete","key":"a","value":"1"}\n', /batch\.jsonl:1: expected/],
    ['batch.jsonl', '{"op":"generation"}\n', /batch\.jsonl:1: expected/],
    ['list.csv', 'key,value\nb,1\na,1\nb,2\n', /list\.csv:4: the same key as on line 2/],
    ['batch.jsonl', '{"op":"delete","key":"\\ud800"}\n', /batch\.jsonl:1: .*lone surrogate/],
    ['batch.jsonl', '{"op":"add","key":"a","value":"\\udc00"}\n', /batch\.jsonl:1: .*lone surrogate/],
    ['batch.jsonl', '{"op":"delete","key":"a","key":"b"}\n', /batch\.jsonl:1: .*appears twice/],
    ['batch.jsonl', '{"op":"add","key":"a","value":"1"}\nnull\n', /batch\.jsonl:2: expected a JSON object/],
  ])('%s: %j is refused, and leaves no file', async (name, text, said) => {
    const { at, file } = await newKey()
    const to = join(at, 'out')
    await expect(transform({ from: await written(at, name, text), to, key: file })).rejects.toThrow(said)
    await expect(stat(to)).rejects.toThrow(/ENOENT/)
  })
})
