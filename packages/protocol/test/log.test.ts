// Logs and witnesses (docs/protocol/witnesses.md): held to vectors that torchwood has made, to their laws, and to policies that are
// small enough to try all.

import { ed25519 } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import vectors from '../../../tests/interop/vectors/log.json' with { type: 'json' }
import { fromHex, toHex } from '../src/index.js'
import * as log from '../src/log/index.js'

const policy = log.parsePolicy(vectors.policy)
const leaves = vectors.entries.map(({ leaf }) => fromHex(leaf))
const verify: log.Verify = (signature, message, publicKey) => {
  try {
    return ed25519.verify(signature, message, publicKey)
  } catch {
    return false
  }
}
const loggedAt = (epoch: number): log.LoggedEpoch => ({
  databaseId: fromHex(vectors.databaseId),
  epoch,
  manifestHash: fromHex(vectors.entries[epoch - 1]!.manifestHash),
})
const refusal = async (work: () => unknown): Promise<string> => {
  try {
    await work()
  } catch (error) {
    if (error instanceof log.LogError) return error.message
    throw error
  }
  return 'accepted'
}
const longest = vectors.proofs.at(-1)!
const check = (text: string, epoch = longest.epoch, by = policy) => log.checkLogProof(text, loggedAt(epoch), by, verify)

describe('vectors of torchwood', () => {
  test('entries, leaves, roots and paths are the same', () => {
    for (const { epoch, bytes, leaf, manifestHash } of vectors.entries) {
      if (manifestHash !== '') expect(toHex(log.logEntry(loggedAt(epoch)))).toBe(bytes)
      expect(toHex(log.leafHash(fromHex(bytes)))).toBe(leaf)
    }
    for (const [i, root] of vectors.roots.entries()) expect(toHex(log.rootOf(leaves.slice(0, i + 1)))).toBe(root)
    for (const { old, size, path } of vectors.consistent) {
      expect(log.consistencyPath(leaves.slice(0, size), old).map(toHex)).toEqual(path)
    }
  })

  test('each proof is accepted, written as it was read, and of its epoch alone', async () => {
    for (const { epoch, size, text } of vectors.proofs) {
      await check(text, epoch)
      const { index, path, note } = log.parseLogProof(text)
      expect(path.map(toHex)).toEqual(log.inclusionPath(leaves.slice(0, size), index).map(toHex))
      expect(log.formatLogProof(index, path, log.formatNote(note))).toBe(text)
      const other = epoch === 1 ? 4 : 1
      expect(await refusal(() => check(text, other))).toMatch(/proof index: expected/)
      const manifestHash = new Uint8Array(32)
      const changed = { ...loggedAt(epoch), manifestHash }
      expect(await refusal(() => log.checkLogProof(text, changed, policy, verify))).toMatch(/this epoch in the log/)
    }
  })

  test('keys and policies are written as they were read', () => {
    const line = vectors.policy.split('\n')[1]!
    expect(`log ${log.encodeNoteKey(policy.log)}`).toBe(line)
    expect(policy.witnesses.map(({ name, url }) => [name, url])).toEqual(
      [1, 2, 3].map(i => [`W${i}`, `https://w${i}.example/api`]),
    )
  })
})

describe('a proof is refused', () => {
  const lines = longest.text.split('\n')
  const [witness] = lines.filter(line => line.startsWith('— w1'))
  const without = (...names: string[]) =>
    lines.filter(line => !names.some(name => line.startsWith(`— ${name}`))).join('\n')

  test.each<[string, string, RegExp]>([
    ['without a quorum', without('w1', 'w2'), /expected a quorum of witnesses, got W3/],
    ['without witnesses', without('w'), /expected a quorum of witnesses, got none of them/],
    [
      'with a witness twice',
      longest.text.replace(`${witness}\n`, `${witness}\n${witness}\n`),
      /one signature of w1.example\/a, got two/,
    ],
    ['without its log', without('example.com'), /that example.com.* has signed/],
    ['with a control character', longest.text.replace('— w1', '— w1\t'), /control characters/],
    ['with the line ends of Windows', longest.text.replaceAll('\n', '\r\n'), /proof/],
    ['with more than an index before its path', longest.text.replace('index', 'extra YQ==\nindex'), /and an index/],
    ['with an index in another spelling', longest.text.replace('index 12', 'index 012'), /proof index/],
    ['with a line more in its checkpoint', longest.text.replace(/\n\n— /, '\nmore\n\n— '), /checkpoint/],
    ['with a hash that is no canonical base64', longest.text.replace('=\n', '\n'), /canonical base64/],
    ['with a hash too many', longest.text.replace('index 12\n', `index 12\n${lines[2]}\n`), /this epoch in the log/],
    [
      'with a signature of a known key that is wrong',
      longest.text.replace(/(— w3\S+ \S{30})(.)/, (_, before, digit) => before + (digit === 'A' ? 'B' : 'A')),
      /signature of w3.*wrong/,
    ],
    ['cut', longest.text.slice(0, -1), /proof|note/],
    ['empty', '', /proof/],
  ])('%s', async (_what, text, why) => {
    expect(text).not.toBe(longest.text)
    expect(await refusal(() => check(text))).toMatch(why)
  })

  test('of another log, of which the policy knows a witness', async () => {
    const other = log.parsePolicy(
      vectors.policy.replace(/^log .*$/m, `log ${log.encodeNoteKey(keyOf('other.example/log', 7))}`),
    )
    expect(await refusal(() => check(longest.text, longest.epoch, other))).toMatch(/a checkpoint of other.example\/log/)
  })

  test('unknown signatures are ignored, also with the name or the id of a known key', async () => {
    const stranger = `— w1.example/a ${log.toBase64(new Uint8Array(76).fill(1))}\n— stranger ${witness!.split(' ')[2]}\n`
    await check(longest.text + stranger)
  })

  test('whichever character before the signatures is changed, and signatures that change do not count', async () => {
    const end = longest.text.indexOf('\n\n— ') + 2
    const at = fc.nat(longest.text.length - 1)
    await fc.assert(
      fc.asyncProperty(at, fc.constantFrom('', 'A', '0', '\n', ' ', '=', '—'), async (i, put) => {
        const changed = longest.text.slice(0, i) + put + longest.text.slice(i + 1)
        if (changed === longest.text || (await refusal(() => check(changed))) !== 'accepted') return
        expect(i).toBeGreaterThanOrEqual(end)
        expect(lines.filter(line => line.startsWith('— w') && changed.includes(`\n${line}\n`)).length).toBe(2)
        expect(changed).toContain(lines.find(line => line.startsWith('— example.com')))
      }),
      { numRuns: 500 },
    )
  })
})

test('base64 is read in one spelling alone', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 50 }), bytes => {
      expect(log.toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'))
      expect(log.fromBase64('x', log.toBase64(bytes))).toEqual(bytes)
    }),
  )
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'ABab01+/=\n _-'), maxLength: 12 }), text => {
      const isCanonical = Buffer.from(text, 'base64').toString('base64') === text
      let accepted = true
      try {
        log.fromBase64('x', text)
      } catch {
        accepted = false
      }
      expect(accepted).toBe(isCanonical)
    }),
    { numRuns: 2000 },
  )
})

test('a tree proves its leaves and what it continues, and nothing else', () => {
  const hashes = fc.array(fc.uint8Array({ minLength: 32, maxLength: 32 }), { minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(hashes, fc.nat(), fc.nat(), (leaves, one, two) => {
      const [index, old] = [one % leaves.length, (two % leaves.length) + 1]
      const [size, root] = [leaves.length, log.rootOf(leaves)]
      const path = log.inclusionPath(leaves, index)
      expect(log.rootThrough(leaves[index]!, index, size, path)).toEqual(root)
      expect(log.rootThrough(leaves[index]!, index, size, [...path, root])).not.toEqual(root)
      const before = { size: old, root: log.rootOf(leaves.slice(0, old)) }
      const proof = log.consistencyPath(leaves, old)
      expect(log.continues(before, { size, root }, proof)).toBe(true)
      expect(log.continues(before, { size, root }, [...proof, root])).toBe(false)
      expect(log.continues({ ...before, root: new Uint8Array(32) }, { size, root }, proof)).toBe(false)
      expect(log.continues(before, { size, root: new Uint8Array(32) }, proof)).toBe(false)
      if (size > old) expect(log.continues({ size, root }, before, proof)).toBe(false)
    }),
  )
})

const keyOf = (name: string, seed: number, type = log.LOG_KEY) =>
  log.noteKey(name, type, ed25519.getPublicKey(new Uint8Array(32).fill(seed)))
const line = (name: string, seed: number) =>
  `witness ${name} ${log.encodeNoteKey(keyOf(`${name}.example`, seed, log.WITNESS_KEY))}`
const LOG = `log ${log.encodeNoteKey(keyOf('example.com/log', 1))}`

describe('a policy', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name, i) => line(name, 10 + i))
  const key6 = `witness m ${'m.example'}+00000000+${log.toBase64(new Uint8Array(1313).fill(6))}`

  test.each<[string, string[], RegExp]>([
    ['without a log', [a!, 'quorum a'], /expected one log, got none/],
    ['with two logs', [LOG, LOG.replace('log ', 'log '), a!, 'quorum a'], /line 2: log: expected one log/],
    ['without a quorum', [LOG, a!], /expected a quorum, got none/],
    ['with the quorum none', [LOG, 'quorum none'], /quorum: expected witnesses, got none/],
    ['with two quorums', [LOG, a!, 'quorum a', 'quorum a'], /line 4: quorum: expected one/],
    [
      'with a key of ML-DSA',
      [LOG, key6, 'quorum m'],
      /line 2: key: expected a witness's key \(type 4, Ed25519\), got type 6/,
    ],
    [
      "with a log's key as a witness",
      [LOG, LOG.replace('log', 'witness x'), 'quorum x'],
      /type 4, Ed25519\), got type 1/,
    ],
    ['with a key twice', [LOG, a!, line('z', 10), 'quorum a'], /line 3: key: expected each once/],
    ['with a name twice', [LOG, a!, line('a', 11), 'quorum a'], /line 3: name: expected a new one, got a/],
    ['with an unknown member', [LOG, a!, 'group g any a x', 'quorum g'], /line 3: name: expected a witness or group/],
    [
      'with a member twice',
      [LOG, a!, b!, 'group g any a', 'group h any a b', 'quorum h'],
      /line 5: group: expected each member once/,
    ],
    ['with a threshold that is too high', [LOG, a!, 'group g 2 a', 'quorum g'], /any, all, or 1 to 1, got 2/],
    ['with a threshold of 0', [LOG, a!, 'group g 0 a', 'quorum g'], /any, all, or 1 to 1, got 0/],
    ['with another word', [LOG, a!, 'quorum a', 'require b'], /line 4: line: expected log, witness/],
    ['with words too many', [LOG, a!, 'quorum a # why'], /line 3: line: expected/],
    ['with a control character', [LOG, `${a}\r`, 'quorum a'], /control characters/],
    ['that is split', [LOG, a!, b!, c!, 'group g any a b c', 'quorum g'], /both sides of a fork/],
    ['whose id is not its', [LOG.replace(/\+[0-9a-f]{8}\+/, '+00000000+'), a!, 'quorum a'], /line 1: key: expected id/],
    [
      'with a key of small order',
      [`log x+00000000+${log.toBase64(Uint8Array.of(1, 1, ...new Uint8Array(31)))}`],
      /key: expected id/,
    ],
  ])('%s is refused', async (_what, lines, why) => {
    expect(await refusal(() => log.parsePolicy(lines.join('\n')))).toMatch(why)
  })

  test('is met, and splits, exactly as all sets of signers show', () => {
    const tree: fc.Memo<unknown> = fc.memo(depth =>
      depth <= 1
        ? fc.constant('leaf')
        : fc.oneof(fc.constant('leaf'), fc.array(tree(depth - 1), { minLength: 1, maxLength: 4 })),
    )
    fc.assert(
      fc.property(tree(3), fc.infiniteStream(fc.nat(3)), (shape, draws) => {
        const keys: log.NoteKey[] = []
        const made = (node: unknown): log.Quorum => {
          if (!Array.isArray(node)) {
            const key = { name: `${keys.length}`, id: '', type: 4, publicKey: new Uint8Array() }
            keys.push(key)
            return { name: key.name, key, url: undefined }
          }
          return { members: node.map(made), atLeast: (draws.next().value! % node.length) + 1 }
        }
        const quorum = made(shape)
        if (keys.length > 8) return
        const all = Array.from({ length: 2 ** keys.length }, (_, mask) => mask)
        const quorums = all.filter(mask => log.isMet(quorum, new Set(keys.filter((_, i) => (mask >> i) & 1))))
        expect(log.isSplit(quorum)).toBe(quorums.some(one => quorums.some(other => (one & other) === 0)))
      }),
      { numRuns: 2000 },
    )
  })
})

test('a tree that grows without its leaves has the same roots', () => {
  const leaves = Array.from({ length: 300 }, (_, i) => log.leafHash(Uint8Array.of(i >> 8, i & 255)))
  let edge = log.EMPTY_EDGE
  for (let size = 0; size <= leaves.length; size++) {
    expect([edge.size, log.rootOfEdge(edge)]).toEqual([size, log.rootOf(leaves.slice(0, size))])
    expect(edge.roots.length).toBeLessThanOrEqual(9)
    if (size < leaves.length) edge = log.grown(edge, leaves[size]!)
  }
})

test('with three witnesses and a thousand epochs a proof has at most 1.2 kB', () => {
  const leaves = Array.from({ length: 1000 }, (_, i) => log.leafHash(Uint8Array.of(i >> 8, i & 255)))
  const origin = log.logOrigin('example.com/keys', fromHex(vectors.databaseId))
  const signers = [
    ['', log.LOG_KEY, 64] as const,
    ...[1, 2, 3].map(i => [`witness${i}.example/w`, log.WITNESS_KEY, 72] as const),
  ]
  const signatures = signers.map(([name, type, bytes]) => {
    const { id } = keyOf(name || origin, 1, type)
    return { name: name || origin, id, bytes: new Uint8Array(bytes) }
  })
  const note = log.formatNote({
    text: log.checkpointText({ origin, size: 1000, root: log.rootOf(leaves) }),
    signatures,
  })
  const bytesAt = (index: number) =>
    Buffer.byteLength(log.formatLogProof(index, log.inclusionPath(leaves, index), note))
  console.log('bytes of a proof, of the last epoch and of one in the middle:', bytesAt(999), bytesAt(500))
  expect(bytesAt(999)).toBeLessThanOrEqual(1200)
})
