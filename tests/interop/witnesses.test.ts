// The shipped code and the reference give one verdict on proofs: those that torchwood has made, and those with something changed.

import { fromHex, signedProofBytes, toHex } from '@keyhush/protocol'
import { checkLogProof, LogError, logEntry, parsePolicy } from '@keyhush/protocol/log'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { verifies } from '../../server/dist/base/ed25519.js'
import { checkProof, entryOf, type Logged, signedOfProof } from './reference/log.js'
import vectors from './vectors/log.json' with { type: 'json' }

const databaseId = fromHex(vectors.databaseId)
const policy = parsePolicy(vectors.policy)
const loggedAt = (epoch: number): Logged => ({
  databaseId,
  epoch,
  manifestHash: fromHex(vectors.entries[epoch - 1]!.manifestHash),
})

async function shipped(text: string, logged: Logged): Promise<boolean> {
  try {
    await checkLogProof(text, logged, policy, verifies)
    return true
  } catch (error) {
    if (error instanceof LogError) return false
    throw error
  }
}

function reference(text: string, logged: Logged): boolean {
  try {
    checkProof(text, logged, vectors.policy)
    return true
  } catch {
    return false
  }
}

test('entries, and what is signed of a proof', () => {
  for (const { epoch, manifestHash } of vectors.entries) {
    if (manifestHash !== '') expect(toHex(entryOf(loggedAt(epoch)))).toBe(toHex(logEntry(loggedAt(epoch))))
    const hash = new Uint8Array(32).fill(epoch)
    expect(toHex(signedOfProof(databaseId, epoch, hash))).toBe(toHex(signedProofBytes(databaseId, epoch, hash)))
  }
})

test('both accept what torchwood has made, and of proofs with something changed the same', async () => {
  for (const { epoch, text } of vectors.proofs) {
    expect([await shipped(text, loggedAt(epoch)), reference(text, loggedAt(epoch))]).toEqual([true, true])
  }
  const proof = fc.constantFrom(...vectors.proofs)
  const others = fc.constantFrom(1, 4, 5, 8, 13)
  const put = fc.constantFrom('', 'A', '0', '\n', ' ', '=', '—', '+', '\t')
  const verdicts = new Set<string>()
  await fc.assert(
    fc.asyncProperty(proof, fc.nat(), put, others, fc.boolean(), async ({ epoch, text }, at, put, other, isOther) => {
      const lines = text.split('\n')
      const i = at % text.length
      const changed =
        at % 5 === 0
          ? lines.filter((_, line) => line !== at % lines.length).join('\n')
          : `${text.slice(0, i)}${put}${text.slice(i + 1)}`
      const logged = loggedAt(isOther ? other : epoch)
      const both = [await shipped(changed, logged), reference(changed, logged)]
      verdicts.add(both.join())
      expect([changed, both[0]]).toEqual([changed, both[1]])
    }),
    { numRuns: 1000 },
  )
  expect([...verdicts].sort()).toEqual(['false,false', 'true,true'])
})
