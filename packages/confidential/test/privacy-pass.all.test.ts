// docs/samples/privacy-pass-*: an app gets tokens of an issuer, and spends one a lookup at each of two evaluators, which are real processes.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { publicVerif, TOKEN_TYPES } from '@cloudflare/privacypass-ts'
import { type KeyhushMap, open } from '@keyhush/client/instant'
import { confidential } from '@keyhush/confidential'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tokens } from '../../../docs/samples/privacy-pass-app.mjs'
import { freePort } from '../../../server/test/helpers.js'
import { serving } from '../../../server/test/spawned.js'
import { temporaryFolder } from '../../../tests/support/servers.js'
import { own } from './support/owned.js'

const BIN = fileURLToPath(new URL('../bin/keyhush-confidential.js', import.meta.url))
const AUTHORIZE = fileURLToPath(new URL('../../../docs/samples/privacy-pass-evaluator.mjs', import.meta.url))
const TOKEN_BYTES = 354
const MODE = publicVerif.BlindRSAMode.PSS

/** An issuer over HTTP. It does not ask who wants a token. */
async function startIssuer(name: string) {
  const pair = await publicVerif.Issuer.generateKey(MODE, {
    modulusLength: 2048,
    publicExponent: Uint8Array.of(1, 0, 1),
  })
  const issuer = new publicVerif.Issuer(MODE, name, pair.privateKey, pair.publicKey)
  const seen: Buffer[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request)
      const wanted = publicVerif.TokenRequest.deserialize(TOKEN_TYPES.BLIND_RSA, Uint8Array.from(body))
      const signed = Buffer.from((await issuer.issue(wanted)).serialize())
      seen.push(body, signed)
      response.end(signed)
    })()
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const issuerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuerKey = await publicVerif.getPublicKeyBytes(pair.publicKey)
  return { options: { issuer: name, issuerUrl, issuerKey }, seen, close: () => server.close() }
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let list: Awaited<ReturnType<typeof own>>
let issuer: Awaited<ReturnType<typeof startIssuer>>
let opened: KeyhushMap
beforeAll(async () => {
  folder = await temporaryFolder()
  list = await own({ otter: 'river', heron: 'shore' })
  issuer = await startIssuer('issuer.example')
  opened = await open({ servers: list.servers, publisherKey: list.publisherKey })
})
afterAll(async () => {
  await opened.close()
  issuer.close()
  await list.close()
  await folder.remove()
})

/** An evaluator with the sample, until the test ends; on its port, since tokens name its host. */
async function evaluator(number: number, port: number) {
  const limits = ['--per-client-day', '--per-network-day', '--total-day'].flatMap(limit => [limit, '1000'])
  const files = ['--share', list.at(`share-${number}`), '--count-in', join(folder.path, `count-${number}`)]
  const args = [BIN, 'serve', '--port', String(port), '--drain-seconds', '0', '--authorize', AUTHORIZE]
  const { issuerKey, issuer: name } = issuer.options
  return await serving(process.execPath, [...args, ...files, ...limits], {
    ISSUER: name,
    ISSUER_KEY: Buffer.from(issuerKey).toString('base64url'),
    ORIGIN: `127.0.0.1:${port}`,
    SPENT: join(folder.path, `spent-${port}`),
  })
}

test('an issued token passes once: spent, forged and foreign ones are refused, also after a restart', async () => {
  const ports = [await freePort(), await freePort()]
  const evaluators = [await evaluator(1, ports[0]!), await evaluator(2, ports[1]!)]
  const urls = evaluators.map(({ url }) => url)
  const tokens = new Tokens(issuer.options)
  const given: { readonly at: string; readonly token: Uint8Array }[] = []
  const mapWith = (authorize: (at: string) => Uint8Array) =>
    confidential(opened, { evaluationKey: list.evaluationKey, evaluators: urls, authorize })
  const map = mapWith(at => {
    const token = tokens.spend(at)
    given.push({ at, token })
    return token
  })
  await tokens.get(urls, 2)
  expect([await map.getText('otter'), await map.getText('auk')]).toEqual(['river', undefined])
  await expect(map.getText('otter')).rejects.toThrow(/expected a token/)
  expect(given.map(({ token }) => token.length)).toEqual(Array(4).fill(TOKEN_BYTES))

  // The issuer has seen nothing that is in a token, but what all tokens have.
  for (const { token } of given) {
    for (const seen of issuer.seen) {
      expect(seen.includes(Buffer.from(token.subarray(2, 34)))).toBe(false)
      expect(seen.includes(Buffer.from(token.subarray(98, 130)))).toBe(false)
    }
  }

  /** How a lookup ends whose first evaluator gets this token, and the second a good one. */
  const endOf = async (bad: (good: Uint8Array) => Uint8Array, keys = ['otter']) => {
    await tokens.get(urls, 1)
    const lookup = mapWith(at => (at === urls[0] ? bad(tokens.spend(at)) : tokens.spend(at))).getManyText(keys)
    return await lookup.catch((error: { refusal?: string; server?: string }) => [error.refusal, error.server])
  }
  const refused = ['unauthorized', urls[0]]
  const other = await startIssuer('issuer.example')
  const others = new Tokens(other.options)
  await others.get(urls, 1)
  other.close()
  const spentBefore = given.find(({ at }) => at === urls[0])!.token
  const ofTheOther = given.find(({ at }) => at === urls[1])!.token
  const changed = (at: number) => (good: Uint8Array) => good.with(at, good[at]! ^ 1)
  expect(await endOf(good => good)).toEqual(['river'])
  expect(await endOf(() => spentBefore)).toEqual(refused)
  expect(await endOf(() => ofTheOther)).toEqual(refused)
  expect(await endOf(() => others.spend(urls[0]!))).toEqual(refused)
  for (const at of [1, 2, 34, 66, 98, TOKEN_BYTES - 1]) expect(await endOf(changed(at))).toEqual(refused)
  expect((await endOf(good => good, ['otter', 'heron']))[0]).toBe('unauthorized') // one token buys one key; both refuse

  evaluators[0]!.child.kill('SIGKILL')
  await evaluators[0]!.finished
  await evaluator(1, ports[0]!)
  expect(await endOf(() => spentBefore)).toEqual(refused)
  expect(await endOf(good => good)).toEqual(['river'])
})
