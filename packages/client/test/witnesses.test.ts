// `open({ witnesses })` (docs/protocol/witnesses.md): a publisher that signs two histories, servers that lie with it, and strangers. An epoch
// counts only with the proof that witnesses have seen it.

import { toHex } from '@keyhush/protocol'
import { blake3 } from '@noble/hashes/blake3.js'
import { describe, expect, test } from 'vitest'
import { nextEpoch } from './support/epochs.js'
import { core, openedOn, refusedBy, sameOnBoth } from './support/harness.js'
import { A, hang, on, problem } from './support/network.js'
import { epochsOf, publisherKey, signatureOf } from './support/signed.js'
import { Directory, KEYS, MODES, textOf, watching } from './support/watched.js'
import { type Proving, policyOf, proofOf, showProof } from './support/witnessed.js'
import { World } from './support/world.js'

const [first, second, third] = epochsOf(3)
const epochs = [first!, second!, third!]
const witnesses = policyOf(first!)
const OPTIONS = { publisherKey, witnesses }
/** the third epoch as another audience is shown it */
const forged = nextEpoch(core, second!, [{ op: 'edit', index: 2, value: new TextEncoder().encode('false') }])

/** Servers with so many epochs, and a proof of each. */
function proved(count = 3) {
  const database = epochs[count - 1]!
  const network = sameOnBoth(...epochs.slice(0, count))
  for (let i = 1; i <= count; i++) showProof(network, epochs.slice(0, i), proofOf(epochs.slice(0, i)))
  return { network, database }
}

test.each(['full', 'local', 'instant', 'auto'] as const)('mode %s: an epoch with its proof is used', async mode => {
  const { harness, map } = await openedOn(proved(), { ...OPTIONS, mode })
  for (const index of [1, 2]) expect(await harness.drive(map.at(index))).toEqual(third!.byIndex[index])
  expect(map.epoch).toBe(3)
})

test('the newest epoch waits for its proof: until then the one before is used, and the map follows when it comes', async () => {
  const { network } = proved(2)
  const { harness, map } = await openedOn({ network }, { ...OPTIONS, mode: 'local' })
  network.publishOnBoth(third!)
  network.signatures.push(signatureOf(third!))
  await harness.drive(map.sync())
  expect(map.epoch).toBe(2)
  showProof(network, epochs, proofOf(epochs))
  await harness.drive(map.sync())
  expect(map.epoch).toBe(3)
})

test('the proof of one server suffices, whatever another one names, sends or leaves out', async () => {
  const { network } = proved()
  const good = toHex(blake3(Buffer.from(proofOf(epochs))))
  const bad = toHex(blake3(Buffer.from('x')))
  const named = (proof: string | undefined) => {
    const { proof: _, ...entry } = network.signatures.at(-1)!
    return { ...entry, ...(proof !== undefined && { proof }) }
  }
  const ofA = (proof: string | undefined) =>
    on('/v1/info', () => Response.json({ ...network.info(A), signatures: [named(proof)] }))
  for (const misbehave of [
    ofA(undefined),
    ofA(bad),
    hang(`/v1/blobs/${good}`),
    on('/v1/blobs/', () => problem(404, 'not_found')),
  ]) {
    network.misbehave[A] = misbehave
    const { harness, map } = await openedOn({ network }, { ...OPTIONS, mode: 'instant' })
    expect(await harness.drive(map.at(1))).toEqual(third!.byIndex[1])
  }
})

describe('refused is', () => {
  const cases: readonly [string, string | undefined, RegExp][] = [
    ['an epoch without a proof', undefined, /got none; ask the publisher to run publish with its log/],
    ['a proof of too few witnesses', proofOf(epochs, { by: 'b' }), /expected a quorum of witnesses, got b/],
    ['one witness twice', proofOf(epochs, { by: 'bb' }), /expected one signature of b.example\/w, got two/],
    ['a proof of the epoch before', proofOf(epochs.slice(0, 2)), /proof index: expected 2, got 1/],
    ['another place', proofOf(epochs, { index: 1 }), /proof index: expected 2, got 1/],
    ['another log', proofOf(epochs, { origin: 'example.com/other' }), /one of another log/],
    ['the proof of a fork', proofOf([first!, second!, forged]), /this epoch in the log, got another entry/],
    ['a text of a stranger', 'x', /proof/],
    ['more than 32 KiB', proofOf(epochs) + 'x'.repeat(32 * 1024), /bytes|longer/],
  ]
  test.each(cases)('%s', async (_what, text, why) => {
    const network = sameOnBoth(...epochs)
    showProof(network, epochs, text)
    for (const mode of ['local', 'instant'] as const) {
      const { code, message } = await refusedBy({ network }, { ...OPTIONS, mode })
      expect([code, message]).toEqual(['signature', expect.stringMatching(why)])
    }
    expect(network.seen.filter(({ path }) => /answer|instant/.test(path))).toEqual([])
  })

  test('a proof that is not text', async () => {
    const network = sameOnBoth(...epochs)
    showProof(network, epochs, proofOf(epochs))
    const [hash] = network.proofs.keys()
    network.proofs.set(hash!, Uint8Array.of(0xff, 0xfe))
    expect((await refusedBy({ network }, { ...OPTIONS, mode: 'instant' })).code).toBe('signature')
  })
})

// The publisher and all servers lie together: some people are shown the third epoch, others another one.
test('of two signed manifests of one epoch only that which witnesses have seen is used', async () => {
  const network = sameOnBoth(first!, second!, forged)
  showProof(network, epochs.slice(0, 2), proofOf(epochs.slice(0, 2)))
  showProof(network, [first!, second!, forged], proofOf([first!, second!, forged], { by: 'a' }))
  const { harness, map } = await openedOn({ network }, { ...OPTIONS, mode: 'instant' })
  expect([map.epoch, await harness.drive(map.at(2))]).toEqual([2, second!.byIndex[2]])
  const trusting = await openedOn({ network }, { publisherKey, mode: 'instant' })
  expect(await trusting.harness.drive(trusting.map.at(2))).toEqual(forged.byIndex[2])
})

describe('what is stored', () => {
  const local = { ...OPTIONS, mode: 'local' } as const
  const down = on('/', () => problem(503, 'not_ready'))
  const stored = async (options: object) => {
    const { network } = proved()
    const world = new World({ network, database: third! })
    await world.drive((await world.life().open({ publisherKey, mode: 'local', ...options })).close())
    network.both(down)
    return { network, world }
  }

  test('is the signature and the proof: a map answers without its servers, also one that asks for no witnesses', async () => {
    const { world } = await stored(OPTIONS)
    for (const options of [local, { publisherKey, mode: 'local' } as const]) {
      const map = await world.life().open(options)
      expect(await world.drive(map.at(1))).toEqual(third!.byIndex[1])
      await world.drive(map.close())
    }
  })

  test.each<[string, object]>([
    ['no proof', {}],
    ['a proof of too few witnesses', { witnesses: policyOf(first!, 'group g all a b\nquorum g\n') }],
  ])('with %s it counts as unsigned, until servers show one', async (_what, options) => {
    const { network } = proved()
    network.signatures.length = 0
    showProof(network, epochs, proofOf(epochs, { by: 'ab' }))
    const world = new World({ network, database: third! })
    await world.drive((await world.life().open({ publisherKey, mode: 'local', ...options })).close())
    network.both(down)
    const wanted = { ...local, witnesses: policyOf(first!, 'group g all b c\nquorum g\n') }
    const life = world.life()
    expect((await life.failure(life.openIdle(wanted).then(map => map.at(1)))).code).toMatch(/signature|network|server/)
    network.both(undefined)
    showProof(network, epochs, proofOf(epochs))
    const map = await world.life().open(wanted)
    expect(await world.drive(map.at(1))).toEqual(third!.byIndex[1])
  })
})

describe('a policy is refused before any traffic', () => {
  test.each<[string, object, RegExp]>([
    ['without publisherKey', { witnesses }, /with a publisherKey/],
    ['that is no text', { publisherKey, witnesses: 7 }, /text of a policy/],
    [
      'that asks nobody',
      { publisherKey, witnesses: policyOf(first!, 'quorum none\n') },
      /quorum: expected witnesses, got none/,
    ],
    [
      'that is split',
      { publisherKey, witnesses: policyOf(first!, 'group g 1 a b c\nquorum g\n') },
      /both sides of a fork/,
    ],
    [
      'with two logs',
      { publisherKey, witnesses: `${witnesses}${witnesses.split('\n')[0]}\n` },
      /one log: two hold both sides/,
    ],
    ['that is empty', { publisherKey, witnesses: '' }, /expected one log, got none/],
  ])('%s', async (_what, options, why) => {
    const { network } = proved()
    const { code, message } = await refusedBy({ network }, { mode: 'instant', ...options })
    expect([code, message]).toEqual(['usage', expect.stringMatching(why)])
    expect(network.seen).toEqual([])
  })
})

test('maps with other witnesses share no session', async () => {
  const { network } = proved()
  const { harness, map } = await openedOn({ network }, { ...OPTIONS, mode: 'instant' })
  network.signatures.length = 0
  showProof(network, epochs, proofOf(epochs, { by: 'bc' } satisfies Proving))
  const only = policyOf(first!, 'quorum a\n')
  const failure = await harness.failure(harness.open({ publisherKey, witnesses: only, mode: 'instant' }))
  expect(failure.code).toBe('signature')
  expect(await harness.drive(map.at(1))).toEqual(third!.byIndex[1])
})

test.each(MODES)(
  'mode %s: a watched key tells what witnesses have seen, and nothing before',
  async (_mode, options) => {
    const directory = new Directory()
    const epochs = [directory.newest]
    const prove = () => showProof(directory.network, epochs, proofOf(epochs))
    prove()
    const wanted = { ...options, witnesses: policyOf(directory.newest) }
    const { heard, watch, sync } = await watching(directory, wanted)
    const key = KEYS[0]!
    const before = textOf((await watch(key)).value)
    epochs.push(directory.publish({ [key]: 'new' }))
    await sync()
    expect(heard).toEqual([])
    prove()
    await sync()
    expect(heard).toEqual([`${before} → new at 2, list`])
  },
)
