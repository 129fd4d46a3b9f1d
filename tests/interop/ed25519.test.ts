// A publisher's signature has one verdict, whoever checks it (docs/protocol.md, Signatures): server, client with the platform's
// Ed25519, client without, in Node and in browsers.

import { createPublicKey, verify } from 'node:crypto'
import { ed25519 } from '@noble/curves/ed25519.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as curves from '../../packages/client/src/servers/curves.js'
import * as client from '../../packages/client/src/servers/ed25519.js'
import * as server from '../../server/dist/base/ed25519.js'
import { withBrowsers } from '../support/browsers.js'
import { type Site, startModule } from '../support/web.js'
import { hostile, type Vector, wycheproof } from './ed25519-vectors.js'

declare global {
  var keyhushEd25519: typeof client
}

/** The rule: key and R are canonical and not of small order, S < L, and the equation holds exactly, as OpenSSL computes it. */
function isRight({ signature, message, publicKey }: Vector): boolean {
  try {
    const points = [publicKey, signature.subarray(0, 32)].map(bytes => ed25519.Point.fromBytes(bytes))
    if (points.some(point => point.isSmallOrder())) return false
    const x = Buffer.from(publicKey).toString('base64url')
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    return verify(null, message, key, signature)
  } catch {
    return false
  }
}

const VECTORS = [...hostile(), ...wycheproof()]
const RIGHT = VECTORS.map(isRight)

test('Wycheproof and the rule agree, and hostile vectors have both verdicts', () => {
  for (const { valid, ...vector } of wycheproof()) expect(isRight(vector)).toBe(valid)
  const accepted = hostile().filter(isRight)
  expect(accepted.length).toBeGreaterThan(16) // those of keys with a part of small order, too
  expect(accepted.length).toBeLessThan(hostile().length)
})

test('some vectors part libraries: the cofactor, keys of small order', () => {
  const byLibrary = VECTORS.map(({ signature, message, publicKey }) => {
    try {
      return ed25519.verify(signature, message, publicKey, { zip215: false })
    } catch {
      return false
    }
  })
  expect(byLibrary.filter((verdict, i) => verdict && !RIGHT[i]).length).toBeGreaterThan(0)
})

test('the server', () => {
  expect(VECTORS.map(vector => server.verifies(vector.signature, vector.message, vector.publicKey))).toEqual(RIGHT)
})

test('a false signature costs a server less than half of what it costs in JavaScript', () => {
  const right = VECTORS[RIGHT.indexOf(true)]!
  const message = Buffer.from('another message')
  /** Processor time; the least of several, for others use this machine too. */
  const cost = (verifies: typeof server.verifies) => {
    const rounds = Array.from({ length: 7 }, () => {
      const before = process.cpuUsage()
      for (let i = 0; i < 20; i++) expect(verifies(right.signature, message, right.publicKey)).toBe(false)
      const { user, system } = process.cpuUsage(before)
      return user + system
    })
    return Math.min(...rounds)
  }
  expect(cost(server.verifies)).toBeLessThan(cost(curves.verifies) / 2)
})

test.each([
  ['by the platform', crypto.subtle],
  ['in JavaScript', undefined],
])('the client, %s', async (_, subtle) => {
  const verdicts = VECTORS.map(vector => client.verifies(vector.signature, vector.message, vector.publicKey, subtle))
  expect(await Promise.all(verdicts)).toEqual(RIGHT)
})

test('a platform that knows no Ed25519 is done without', async () => {
  const subtle = {
    importKey: () => Promise.reject(new DOMException('', 'NotSupportedError')),
  } as unknown as SubtleCrypto
  const { signature, message, publicKey } = VECTORS[RIGHT.indexOf(true)]!
  expect(await client.verifies(signature, message, publicKey, subtle)).toBe(true)
})

let page: Site
beforeAll(async () => {
  page = await startModule('packages/client/src/servers/ed25519.ts', 'keyhushEd25519')
})
afterAll(() => page.close())

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  test('by the platform, which knows Ed25519, and in JavaScript', async () => {
    const tab = await browser().newPage()
    await tab.goto(page.url)
    const vectors = VECTORS.map(({ publicKey, message, signature }) => {
      return [signature, message, publicKey].map(bytes => [...bytes]) as [number[], number[], number[]]
    })
    const found = await tab.evaluate(async vectors => {
      let verified = 0
      const { subtle } = crypto
      const counting = {
        importKey: subtle.importKey.bind(subtle),
        async verify(...asked: Parameters<SubtleCrypto['verify']>) {
          const verdict = await subtle.verify(...asked)
          verified++
          return verdict
        },
      } as unknown as SubtleCrypto
      const verdicts = async (subtle: SubtleCrypto | undefined) => {
        const all: boolean[] = []
        for (const vector of vectors) {
          const [signature, message, publicKey] = vector.map(bytes => new Uint8Array(bytes)) as [
            Uint8Array,
            Uint8Array,
            Uint8Array,
          ]
          all.push(await globalThis.keyhushEd25519.verifies(signature, message, publicKey, subtle))
        }
        return all
      }
      return { platform: await verdicts(counting), verified, javascript: await verdicts(undefined) }
    }, vectors)
    expect(found.platform).toEqual(RIGHT)
    expect(found.javascript).toEqual(RIGHT)
    expect(found.verified).toBeGreaterThan(RIGHT.filter(Boolean).length)
  })
})
