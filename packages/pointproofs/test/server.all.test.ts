// A database with Pointproofs: built only under a ceremony one had a part in, the same by everybody, resumable; loaded only if it
// is what its manifest says; answers that an independent verifier takes.

import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { answerBytes, encodeManifest, HEADER_BYTES, type Manifest, SUITE_POINTPROOFS, toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { VERSION } from '../../../server/dist/base/version.js'
import { FixedEpochs } from '../../../server/dist/database/fixed-epochs.js'
import { answerQuery } from '../../../server/dist/http/routes/answer.js'
import { type BuildOptions, buildDataset, loadDataset } from '../../../server/dist/index.js'
import { contentsOf, dataFile, pseudoRandom, queryAt, temporaryDirectory } from '../../../server/test/helpers.js'
import {
  type CeremonyFiles,
  ceremonyIn,
  contributed,
  earlyTranscript,
  expectVerified,
  keyAndRows,
  manifestOf,
  replyTo,
} from './support/proved.js'
import { Ceremony } from './support/reference.js'

const RECORDS = 520 // in two partitions of 260: a whole row, and one of four records
const BYTES = 8
const records = pseudoRandom(RECORDS * BYTES, 3)
let files: CeremonyFiles

let dir: string
let shared: string
/** a file: the ceremony's transcript before the other's contribution */
let early: string

const built = async (change: Partial<BuildOptions> = {}, content = records) => {
  const data = await dataFile('records.bin', content)
  const out = join(await temporaryDirectory(), 'dataset')
  const ceremony = { ceremony: files.transcript, receipt: files.mine }
  await buildDataset({
    ...{ data, out, recordBytes: BYTES, partitions: 2, proofs: 'pointproofs' as const },
    ...ceremony,
    ...change,
  })
  return out
}

beforeAll(async () => {
  shared = await mkdtemp(join(tmpdir(), 'keyhush-test-'))
  files = await ceremonyIn(shared)
  early = join(shared, 'early')
  await writeFile(early, earlyTranscript())
  const data = join(shared, 'records.bin')
  await writeFile(data, records)
  dir = join(shared, 'dataset')
  const proofs = { proofs: 'pointproofs', ceremony: files.transcript, receipt: files.mine } as const
  await buildDataset({ data, out: dir, recordBytes: BYTES, partitions: 2, ...proofs })
  return () => rm(shared, { recursive: true, force: true })
})

describe('a build', () => {
  test('of each operator gives the same bytes, also one that was interrupted, and leaves nothing beside them', async () => {
    const data = await dataFile('records.bin', records)
    const out = join(await temporaryDirectory(), 'dataset')
    const proofs = { proofs: 'pointproofs', ceremony: files.transcript, receipt: files.theirs } as const
    const build = (onProgress?: BuildOptions['onProgress']) =>
      buildDataset({ data, out, recordBytes: BYTES, partitions: 2, ...proofs, onProgress })
    await expect(
      build(({ stage, done }) => {
        if (stage === 'proving' && done === 2) throw new Error('interrupted')
      }),
    ).rejects.toThrow('interrupted')
    // It goes on from what it has proved, and from nothing else: what has rotted meanwhile is proved again.
    const kept = (await readdir(`${out}.proving`)).filter(name => !name.endsWith('.part'))
    expect(kept).toHaveLength(2)
    const first = join(`${out}.proving`, kept[0]!)
    const bytes = await readFile(first)
    bytes[bytes.length - 1]! ^= 1
    await writeFile(first, bytes)
    const done: number[] = []
    await build(progress => void (progress.stage === 'proving' && done.push(progress.done)))
    expect(done).toEqual([1, 2])
    expect(await contentsOf(out)).toEqual(await contentsOf(dir))
    expect(await readdir(join(out, '..'))).toEqual(['dataset'])
    expect((await readdir(shared)).filter(name => name.startsWith('dataset'))).toEqual(['dataset'])
    const { suite, pointproofs } = await manifestOf(dir)
    expect([suite, pointproofs?.development]).toEqual([SUITE_POINTPROOFS, false])
    expect(toHex(pointproofs!.transcriptHash)).toBe(toHex(blake3(await readFile(files.transcript))))
  })

  test('needs the contribution of who builds to be in the transcript', async () => {
    const foreign = join(await temporaryDirectory(), 'foreign')
    await writeFile(foreign, contributed(new Ceremony(false), 'Ada', 5))
    await expect(built({ receipt: foreign })).rejects.toThrow(/the contribution of .* is not in it/)
    await expect(built({ ceremony: early, receipt: files.theirs })).rejects.toThrow(/is not in it/)
    await expect(built({ receipt: files.transcript })).rejects.toThrow(/expected a receipt/)
    await expect(built({ receipt: undefined })).rejects.toThrow(/\.receipt/) // there is none of that name
    await expect(built({ ceremony: files.mine })).rejects.toThrow(/transcript: expected/)
    const damaged = join(await temporaryDirectory(), 'damaged')
    const bytes = await readFile(files.transcript)
    bytes.copyWithin(16, 64, 112) // the first power is the second
    await writeFile(damaged, bytes)
    await expect(built({ ceremony: damaged })).rejects.toThrow(/does not hold|transcript/)
  })

  test('is told what goes together', async () => {
    await expect(built({ ceremony: undefined })).rejects.toThrow(/--proofs pointproofs and --ceremony go together/)
    await expect(built({ proofs: 'merkle' })).rejects.toThrow(/go together/)
    const options = { proofs: undefined, ceremony: undefined }
    await expect(built({ ...options, receipt: files.mine })).rejects.toThrow(/--receipt: expected --ceremony too/)
    await expect(built({ ...options, receipt: undefined, prover: 'x' })).rejects.toThrow(
      /--prover: expected --ceremony too/,
    )
  })

  test('by a command proves the same, and says what is wrong with one', async () => {
    const folder = await temporaryDirectory()
    const script = async (name: string, text: string) => {
      const path = join(folder, name)
      await writeFile(path, `#!${process.execPath}\n${text}`, { mode: 0o755 })
      return path
    }
    const few = { partitions: 2 } as const
    const some = records.subarray(0, 40 * BYTES)
    const out = await built({ ...few, prover: await script('prover.mjs', proverScript) }, some)
    expect(await contentsOf(out)).toEqual(await contentsOf(await built(few, some)))
    const refusal = async (name: string, text: string) => built({ ...few, prover: await script(name, text) }, some)
    await expect(refusal('older', 'console.log("keyhush-prover 0.0.0")')).rejects.toThrow(
      /older: it is not the prover of version/,
    )
    await expect(refusal('failing', 'process.exitCode = 3')).rejects.toThrow(/failing: it has ended with code 3/)
    await expect(built({ ...few, prover: join(folder, 'none') }, some)).rejects.toThrow(
      /none: cannot be run \(ENOENT\)/,
    )
  })

  test('in blocks proves the blocks', async () => {
    const out = await built({ pack: 2, partitions: 1 }, records.subarray(0, 64 * BYTES))
    const dataset = await loadDataset(out)
    onTestFinished(() => dataset.close())
    expectVerified(dataset.manifest, await keyAndRows(out), await answerAt(new FixedEpochs(dataset), 3, 1), 3, 1)
  })
})

/** What rust/prover does, with the module's prover. */
const proverScript = `
import { loadProving } from '${new URL('../dist/server/module.js', import.meta.url).href}'
const chunks = []
let length = 0
let prover, bytes
process.stdout.write('keyhush-prover ${VERSION}\\n')
const SETUP = 32 + 511 * 96
const proving = await loadProving()
for await (const chunk of process.stdin) {
  chunks.push(chunk)
  length += chunk.length
  for (;;) {
    const wanted = prover === undefined ? SETUP + 12 : 4 + bytes
    if (length < wanted) break
    const all = Buffer.concat(chunks.splice(0))
    chunks.push(all.subarray(wanted))
    length -= wanted
    if (prover === undefined) {
      const [partitions, partitionRecords, recordBytes] = [0, 4, 8].map(at => all.readUInt32LE(SETUP + at))
      bytes = partitionRecords * recordBytes
      prover = proving.prover(all.subarray(0, SETUP), { partitions, partitionRecords, recordBytes })
    } else process.stdout.write(prover.prove(all.readUInt32LE(0), all.subarray(4, wanted)))
  }
}
`

const answerAt = (epochs: FixedEpochs, offset: number, count: number) => {
  const { manifest } = epochs.newest
  return replyTo(epochs, queryAt(manifest, offset, count, 'pointproofs'))
}

test('answers are proved as a whole, and the other suites answer as ever', async () => {
  const dataset = await loadDataset(dir)
  onTestFinished(() => dataset.close())
  const epochs = new FixedEpochs(dataset)
  const known = await keyAndRows(dir)
  for (const [offset, count] of [
    [0, 1],
    [259, 2],
  ] as const) {
    const answer = await answerAt(epochs, offset, count)
    expectVerified(dataset.manifest, known, answer, offset, count)
    const at = (index: number) => Buffer.from(records.subarray(index * BYTES, (index + 1) * BYTES))
    expect(Buffer.from(answer.subarray(HEADER_BYTES, HEADER_BYTES + 2 * BYTES))).toEqual(
      Buffer.concat([at(offset), at(260 + offset)]),
    )
  }
  for (const proofs of ['merkle', 'tags'] as const) {
    const answer = await replyTo(epochs, queryAt(dataset.manifest, 5, 1, proofs))
    expect(answer.length).toBe(answerBytes(dataset.manifest, 1, proofs))
  }
  expect([...epochs.newest.suites]).toContain(SUITE_POINTPROOFS)
  const { maxQueries } = dataset.manifest
  expect(maxQueries).toBe(64)
  const beyond = queryAt(dataset.manifest, 260, 1, 'pointproofs')
  expect(() => answerQuery(epochs, beyond, () => {})).toThrow(/expected offsets below/)
  for (const hash of [dataset.manifest.pointproofs!.rowsHash, dataset.manifest.pointproofs!.keyHash]) {
    expect((await epochs.findBlob(toHex(hash)))?.bytes).toBeGreaterThan(0)
  }
})

describe('a dataset that is not what its manifest says is not served', () => {
  /** A copy of it, changed. */
  async function changed(change: (copy: string, manifest: Manifest) => Promise<void>): Promise<string> {
    const copy = join(await temporaryDirectory(), 'dataset')
    await cp(dir, copy, { recursive: true })
    await change(copy, await manifestOf(copy))
    return copy
  }
  const flip = async (path: string, at: number) => {
    const bytes = await readFile(path)
    bytes[at]! ^= 1
    await writeFile(path, bytes)
  }
  const blob = (copy: string, hash: Uint8Array) => join(copy, 'blobs', toHex(hash))

  test.each<[string, (copy: string, manifest: Manifest) => Promise<void>, RegExp]>([
    [
      'row lists',
      (copy, { pointproofs }) => flip(blob(copy, pointproofs!.rowsHash), 40),
      /row lists that the manifest/,
    ],
    ['key', (copy, { pointproofs }) => flip(blob(copy, pointproofs!.keyHash), 200), /those of the key/],
    ['transcript', copy => flip(join(copy, 'proofs/transcript'), 70), /no transcript that holds/],
    ['openings', copy => flip(join(copy, 'proofs/openings-1'), 500), /not there whole/],
    [
      'another transcript',
      async copy => {
        await writeFile(join(copy, 'proofs/transcript'), await readFile(early))
      },
      /not the transcript that the manifest names/,
    ],
    [
      'a key that is not its transcript’s',
      async (copy, manifest) => {
        const bytes = (await readFile(blob(copy, manifest.pointproofs!.keyHash))).reverse()
        const keyHash = blake3(bytes)
        await writeFile(blob(copy, keyHash), bytes)
        const next = { ...manifest, pointproofs: { ...manifest.pointproofs!, keyHash } }
        await writeFile(join(copy, 'manifest.bin'), encodeManifest(next))
      },
      /not that of its transcript/,
    ],
    [
      'rows of other records',
      async (copy, manifest) => {
        const rows = await readFile(blob(copy, manifest.pointproofs!.rowsHash))
        const other = Buffer.concat([
          rows.subarray(0, 32),
          rows.subarray(80, 128),
          rows.subarray(32, 80),
          rows.subarray(128),
        ])
        const rowsHash = blake3(other)
        await writeFile(blob(copy, rowsHash), other)
        const next = { ...manifest, pointproofs: { ...manifest.pointproofs!, rowsHash } }
        await writeFile(join(copy, 'manifest.bin'), encodeManifest(next))
      },
      /the rows of partition 0 are not those of its records/,
    ],
    [
      'the mark of development',
      async (copy, manifest) => {
        const next = { ...manifest, pointproofs: { ...manifest.pointproofs!, development: true } }
        await writeFile(join(copy, 'manifest.bin'), encodeManifest(next))
      },
      /not the transcript that the manifest names/,
    ],
  ])('%s', async (_what, change, reason) => {
    await expect(loadDataset(await changed(change))).rejects.toMatchObject({
      name: 'DatasetError',
      message: expect.stringMatching(reason),
    })
  })
})
