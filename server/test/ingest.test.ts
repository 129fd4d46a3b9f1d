// What each data format accepts and means, and what it refuses, with file, line and reason.

import { join } from 'node:path'
import { decodeRecord } from '@keyhush/protocol'
import { loadCore } from '@keyhush/wasm'
import { describe, expect, test } from 'vitest'
import { thoroughly } from '../../tests/support/thoroughly.js'
import { formatOf } from '../dist/dataset/ingest/index.js'
import { recordBytesView } from '../dist/dataset/view.js'
import { BuildError, buildDataset, type Dataset } from '../dist/index.js'
import { builtDataset, type Choices, dataFile, temporaryDirectory } from './helpers.js'

/** The refusal that building a file of these contents meets. */
async function refusal(name: string, contents: string | Uint8Array, choices: Choices = {}): Promise<BuildError> {
  const data = await dataFile(name, contents)
  const out = join(await temporaryDirectory(), 'out')
  const error = await buildDataset({ data, out, ...choices }).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof BuildError)) throw new Error(`expected a BuildError, got ${error}`)
  if (error.file !== undefined) {
    expect(error.file).toBe(data)
    expect(error.message).toBe(`${[data, error.line].filter(part => part !== undefined).join(':')}: ${error.reason}`)
  }
  return error
}

async function expectRefusal(name: string, contents: string | Uint8Array, line: number | undefined, reason: RegExp) {
  expect(await refusal(name, contents)).toMatchObject({ line, reason: expect.stringMatching(reason) })
}

/** The value of a key in a loaded dataset, found by reading every record; undefined: absent. */
async function lookUp(dataset: Dataset, key: string): Promise<string | undefined> {
  const core = await loadCore()
  const { manifest } = dataset
  const wanted = core.fingerprint(Buffer.from(key))
  for (let i = 0; i < manifest.records; i++) {
    const bytes = recordBytesView(core, dataset.database, i * manifest.recordBytes, manifest.recordBytes)
    const record = decodeRecord(manifest, bytes)
    if (Buffer.from(record.fingerprint!).equals(wanted)) return Buffer.from(record.value).toString('latin1')
  }
  return undefined
}

describe('csv and tsv', () => {
  test('mean the same with LF, CRLF, a byte order mark, quotes, swapped columns, tabs, in another order, or without a last line end', async () => {
    const spellings: [string, string][] = [
      ['a.csv', 'key,value\nalpha,1\nbeta,22\n'],
      ['a.csv', 'key,value\r\nalpha,1\r\nbeta,22\r\n'],
      ['a.csv', '\ufeffkey,value\nalpha,1\nbeta,22'],
      ['a.csv', '"key","value"\n"alpha","1"\n"beta","22"\n'],
      ['a.csv', 'value,key\n1,alpha\n22,beta\n'],
      ['a.tsv', 'key\tvalue\nalpha\t1\nbeta\t22\n'],
      ['a.jsonl', '{"key":"alpha","value":"1"}\n{"value":"22","key":"be\\u0074a"}\n'],
      ['A.CSV', 'key,value\nbeta,22\nalpha,1\n'],
    ]
    const datasets = await Promise.all(spellings.map(([name, contents]) => builtDataset(name, contents)))
    expect(new Set(datasets.map(dataset => dataset.manifestHash)).size).toBe(1)
    expect([await lookUp(datasets[0]!, 'alpha'), await lookUp(datasets[0]!, 'beta')]).toEqual(['1', '22'])
    expect(await lookUp(datasets[0]!, 'gamma')).toBeUndefined()
  })

  test('fields may hold delimiters, line ends and doubled quotes; a tsv may hold commas', async () => {
    const csv = await builtDataset('a.csv', 'key,value\n"a,b","x ""y"" z"\n"line\r\nend","1\n2"\n')
    expect(await lookUp(csv, 'a,b')).toBe('x "y" z')
    expect(await lookUp(csv, 'line\r\nend')).toBe('1\n2')
    const tsv = await builtDataset('a.tsv', 'key\tvalue\na,b\tc,d\n')
    expect(await lookUp(tsv, 'a,b')).toBe('c,d')
  })

  test('keys and values are exact: nothing is trimmed, cast or normalised', async () => {
    const dataset = await builtDataset('a.csv', 'key,value\n a ,01\nA,1.0\n\u00e9, \ne\u0301,\n')
    expect(await lookUp(dataset, ' a ')).toBe('01')
    expect(await lookUp(dataset, 'a')).toBeUndefined()
    expect(await lookUp(dataset, 'A')).toBe('1.0')
    expect(await lookUp(dataset, '\u00e9')).toBe(' ')
    expect(await lookUp(dataset, 'e\u0301')).toBe('')
  })

  thoroughly('a file of several megabytes is read across chunk borders, quoted line ends included', async () => {
    const rows = Array.from({ length: 40_000 }, (_, i) => `"key ${i}\nsecond line","${'é'.repeat(i % 40)}"\n`)
    const dataset = await builtDataset('a.csv', `key,value\n${rows.join('')}`)
    expect(dataset.manifest.records).toBe(40_000)
    expect(dataset.manifest.valueBytes).toBe(78)
    expect(await refusal('a.csv', `key,value\n${rows.join('')}"key 7\nsecond line",again\n`)).toMatchObject({
      line: 80_002,
      reason: 'the same key as on line 16; delete one of them',
    })
  })

  test.each<[string, string, string | Uint8Array, number | undefined, RegExp]>([
    ['an empty file', 'a.csv', '', undefined, /empty/],
    ['only a byte order mark', 'a.csv', '\ufeff', undefined, /empty/],
    ['only a header', 'a.csv', 'key,value\n', undefined, /no records/],
    ['no header', 'a.csv', 'alpha,1\n', 1, /header/],
    ['a header in capitals', 'a.csv', 'Key,Value\nalpha,1\n', 1, /header/],
    ['an extra column', 'a.csv', 'key,value,note\nalpha,1,x\n', 1, /header.*comma/],
    ['a missing column', 'a.csv', 'key\nalpha\n', 1, /header/],
    ['a column twice', 'a.csv', 'key,key\nalpha,1\n', 1, /header/],
    ['commas in a tsv', 'a.tsv', 'key,value\nalpha,1\n', 1, /header.*tab/],
    ['a compressed file with a quote in it', 'a.csv', Buffer.from('1f8b08002280', 'hex'), 1, /header/],
    ['line ends of CR alone', 'a.csv', 'key,value\ralpha,1\r', 1, /header/],
    ['a line with one field', 'a.csv', 'key,value\nalpha,1\nbeta\n', 3, /two fields/],
    ['a line with three fields', 'a.csv', 'key,value\nalpha,1,2\n', 2, /two fields/],
    ['a blank line', 'a.csv', 'key,value\nalpha,1\n\nbeta,2\n', 3, /two fields/],
    ['an empty key', 'a.csv', 'key,value\nalpha,1\n,2\n', 3, /key is empty/],
    ['a key twice', 'a.csv', 'key,value\nalpha,1\nbeta,2\nalpha,3\n', 4, /same key as on line 2/],
    [
      'a key twice, differently quoted',
      'a.csv',
      'key,value\n"al\r\npha",1\n"al\r\npha",2\n',
      4,
      /same key as on line 2/,
    ],
    ['a quote never closed', 'a.csv', 'key,value\n"x\ny",1\n"beta,2\ngamma,3\n', 4, /never closed/],
    ['text after a closing quote', 'a.csv', 'key,value\n"al"pha,1\n', 2, /closing quote/],
    ['a quote inside a bare field', 'a.csv', 'key,value\nal"pha,1\n', 2, /quote/],
    ['a key of 4097 bytes', 'a.csv', `key,value\n${'é'.repeat(2048)},1\n${'é'.repeat(2048)}x,1\n`, 3, /4096.*4097/],
    ['a value of 65521 bytes', 'a.csv', `key,value\nalpha,${'x'.repeat(65_521)}\n`, 2, /65520.*65521/],
    ['a value too long for a length field', 'a.csv', `key,value\nb,1\na,${'x'.repeat(65_519)}\n`, 3, /65518.*65519/],
    ['a record of 2 MB', 'a.csv', `key,value\nalpha,${'x'.repeat(2e6)}\n`, 2, /at most 1048576 bytes/],
    ['bytes that are not UTF-8', 'a.csv', Buffer.from('key,value\nalpha,1\nb\xffta,2\n', 'latin1'), 3, /UTF-8/],
    ['a value that is not UTF-8', 'a.csv', Buffer.from('key,value\nalpha,\xe9\n', 'latin1'), 2, /UTF-8/],
    ['UTF-16', 'a.csv', Buffer.from('\ufeffkey,value\nalpha,1\n', 'utf16le'), 1, /UTF-8/],
  ])('%s is refused', (_, name, contents, line, reason) => expectRefusal(name, contents, line, reason))
})

describe('jsonl', () => {
  test('takes escapes, any order of members, spaces and a byte order mark', async () => {
    const lines = '\ufeff{"key":"\\u00e9\\n","value":"\\"1\\""}\r\n { "value" : "2" , "key" : "\\ud83d\\ude00" } \n'
    const dataset = await builtDataset('a.jsonl', lines)
    expect(await lookUp(dataset, 'é\n')).toBe('"1"')
    expect(await lookUp(dataset, '😀')).toBe('2')
  })

  test.each<[string, string | Uint8Array, number | undefined, RegExp]>([
    ['an empty file', '', undefined, /no records/],
    ['a line that is not JSON', '{"key":"a","value":"1"}\n{"key":\n', 2, /not JSON/],
    ['a blank line', '{"key":"a","value":"1"}\n\n{"key":"b","value":"1"}\n', 2, /not JSON/],
    ['a line that is an array', '["a","1"]\n', 1, /object/],
    ['a line that is null', 'null\n', 1, /object/],
    ['a key that is a number', '{"key":1,"value":"1"}\n', 1, /"key"/],
    ['no value', '{"key":"a"}\n', 1, /"value"/],
    ['a value that is null', '{"key":"a","value":null}\n', 1, /"value"/],
    ['another member', '{"key":"a","value":"1","ttl":3}\n', 1, /"ttl"/],
    ['__proto__ as a member', '{"key":"a","value":"1","__proto__":{}}\n', 1, /__proto__/],
    ['a lone surrogate', '{"key":"\\ud800","value":"1"}\n', 1, /surrogate/],
    ['an empty key', '{"key":"","value":"1"}\n', 1, /empty/],
    ['a key twice', '{"key":"a","value":"1"}\n{"key":"\\u0061","value":"2"}\n', 2, /line 1/],
    ['bytes that are not UTF-8', Buffer.from('{"key":"\xe9","value":"1"}\n', 'latin1'), 1, /UTF-8/],
    ['a line of 2 MB', `{"key":"a","value":"${'x'.repeat(2e6)}"}`, 1, /at most 1048576 bytes|2000000/],
  ])('%s is refused', (_, contents, line, reason) => expectRefusal('a.jsonl', contents, line, reason))
})

describe('txt', () => {
  test('is a set of keys without values; empty lines are skipped and nothing is trimmed', async () => {
    const dataset = await builtDataset('a.txt', '\ufeffalpha\r\n\n beta\n\n\ngamma')
    expect(dataset.manifest).toMatchObject({ records: 3, recordBytes: 16, valueBytes: 0, variable: false })
    expect(await lookUp(dataset, 'alpha')).toBe('')
    expect(await lookUp(dataset, ' beta')).toBe('')
    expect(await lookUp(dataset, 'beta')).toBeUndefined()
    expect(await lookUp(dataset, 'gamma')).toBe('')
  })

  test.each<[string, string | Uint8Array, number | undefined, RegExp]>([
    ['an empty file', '', undefined, /no records/],
    ['only empty lines', '\n\r\n\n', undefined, /no records/],
    ['a key twice', 'alpha\n\nbeta\nalpha\n', 4, /line 1/],
    ['bytes that are not UTF-8', Buffer.from('alpha\n\xff\n', 'latin1'), 2, /UTF-8/],
    ['a key of 4097 bytes', 'x'.repeat(4097), 1, /4097/],
  ])('%s is refused', (_, contents, line, reason) => expectRefusal('a.txt', contents, line, reason))
})

describe('bin', () => {
  test('is the records themselves', async () => {
    const dataset = await builtDataset('a.bin', Uint8Array.of(1, 2, 3, 4, 5, 6), { recordBytes: 2 })
    expect(dataset.manifest).toMatchObject({ records: 3, recordBytes: 2, keyed: false, variable: false })
  })

  test.each<[string, Uint8Array, Choices, RegExp]>([
    ['an empty file', new Uint8Array(), { recordBytes: 4 }, /empty/],
    ['a length that is no multiple', new Uint8Array(10), { recordBytes: 4 }, /multiple.*10 bytes/],
    ['no --record-bytes', new Uint8Array(8), {}, /--record-bytes/],
    ['--record-bytes 0', new Uint8Array(8), { recordBytes: 0 }, /--record-bytes/],
    ['--record-bytes 65537', new Uint8Array(65_537), { recordBytes: 65_537 }, /--record-bytes.*65536/],
    ['--value-encoding', new Uint8Array(8), { recordBytes: 4, valueEncoding: 'hex' }, /--value-encoding/],
    ['--max-value-bytes', new Uint8Array(8), { recordBytes: 4, maxValueBytes: 4 }, /--max-value-bytes/],
    ['--partitions 0', new Uint8Array(8), { recordBytes: 4, partitions: 0 }, /--partitions/],
    ['--partitions 65537', new Uint8Array(8), { recordBytes: 4, partitions: 65_537 }, /--partitions/],
  ])('with %s is refused', async (_, contents, choices, reason) => {
    expect((await refusal('a.bin', contents, choices)).reason).toMatch(reason)
  })
})

describe('values', () => {
  test('are decoded from base64 and hex', async () => {
    const base64 = await builtDataset('a.csv', 'key,value\na,\nb,/w==\nc,AAEC\n', { valueEncoding: 'base64' })
    expect([await lookUp(base64, 'a'), await lookUp(base64, 'b'), await lookUp(base64, 'c')]).toEqual([
      '',
      '\xff',
      '\x00\x01\x02',
    ])
    const hex = await builtDataset('a.jsonl', '{"key":"a","value":"00fF"}\n', { valueEncoding: 'hex' })
    expect(await lookUp(hex, 'a')).toBe('\x00\xff')
  })

  test.each(['A', 'AA', 'AA=', 'AA===', '/x==', 'A A=', '_w==', 'AAEC\t', 'ÿÿÿÿ', '===='])(
    '%j is not base64',
    async text => {
      const error = await refusal('a.csv', `key,value\na,AAEC\nb,"${text}"\n`, { valueEncoding: 'base64' })
      expect([error.line, error.reason]).toEqual([3, expect.stringMatching(/base64/)])
    },
  )

  test.each(['0', '0g', '0x00', '00 11', 'zz', '00\n', 'éé'])('%j is not hex', async text => {
    const error = await refusal('a.jsonl', `${JSON.stringify({ key: 'a', value: text })}\n`, { valueEncoding: 'hex' })
    expect([error.line, error.reason]).toEqual([1, expect.stringMatching(/hex/)])
  })

  test('of one length make a fixed layout; of several, or with room for longer ones, a variable one', async () => {
    const manifest = async (contents: string, choices: Choices = {}) =>
      (await builtDataset('a.csv', contents, choices)).manifest
    const shape = (valueBytes: number, variable: boolean) => ({
      valueBytes,
      variable,
      recordBytes: 16 + (variable ? 2 : 0) + valueBytes,
    })
    expect(await manifest('key,value\na,12\nb,34\n')).toMatchObject(shape(2, false))
    expect(await manifest('key,value\na,12\nb,345\n')).toMatchObject(shape(3, true))
    expect(await manifest('key,value\na,345\nb,12\n')).toMatchObject(shape(3, true))
    expect(await manifest('key,value\na,12\nb,34\n', { maxValueBytes: 2 })).toMatchObject(shape(2, false))
    expect(await manifest('key,value\na,12\nb,34\n', { maxValueBytes: 100 })).toMatchObject(shape(100, true))
    expect(await manifest('key,value\na,\nb,\n')).toMatchObject(shape(0, false))
    expect(await refusal('a.csv', 'key,value\na,12\nb,345\n', { maxValueBytes: 2 })).toMatchObject({ line: 3 })
    expect((await refusal('a.csv', 'key,value\na,1\n', { maxValueBytes: 65_519 })).reason).toMatch(/65518/)
  })
})

describe('the file', () => {
  test('must exist, be a file, and tell its format', async () => {
    const out = join(await temporaryDirectory(), 'out')
    const dir = await temporaryDirectory()
    await expect(buildDataset({ data: join(dir, 'none.csv'), out })).rejects.toThrow(
      /none\.csv: expected a file, got none/,
    )
    await expect(buildDataset({ data: dir, out, format: 'csv' })).rejects.toThrow(/expected a file/)
    expect((await refusal('a.dat', 'alpha\n')).reason).toMatch(/csv, tsv, jsonl, txt, bin/)
    expect((await builtDataset('a.dat', 'alpha\n', { format: 'txt' })).manifest.records).toBe(1)
    expect((await refusal('a.csv', 'key,value\n', { recordBytes: 4 })).reason).toMatch(/--record-bytes/)
    expect((await refusal('a.txt', 'a\n', { valueEncoding: 'hex' })).reason).toMatch(/--value-encoding/)
  })
})

test('a file of another format is refused with what to do: for Parquet another command', () => {
  expect(() => formatOf('list.xlsx')).toThrow(/got another; give --format$/)
  expect(() => formatOf('list.parquet')).toThrow(/got another; have DuckDB write CSV \(docs\/operations\/build\.md\)$/)
})
