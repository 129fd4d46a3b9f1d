// For `confidential(map, { authorize })`: tokens of Privacy Pass (RFC 9578, type 2), for evaluators with privacy-pass-evaluator.mjs. The issuer
// knows who gets tokens. It signs them blindly, so it cannot tell who spends one.
//
//   const tokens = new Tokens({ issuer: 'issuer.example', issuerUrl, issuerKey })
//   await tokens.get(evaluators, 10) // early, and never because of a lookup: the time of both would tell
//   const map = confidential(opened, { evaluationKey, evaluators, authorize: tokens.spend })

import { publicVerif, TOKEN_TYPES, TokenChallenge } from '@cloudflare/privacypass-ts'

export class Tokens {
  #options
  /** by the evaluator's host */
  #kept = new Map()

  /** `issuerKey`: the token key of the issuer's directory, as bytes. Ship it with your app: a key of your own would name you. */
  constructor(options) {
    this.#options = options
  }

  /** Gets so many tokens for each evaluator. A lookup spends one of each. */
  async get(evaluators, count) {
    const hosts = evaluators.map(url => new URL(url).host)
    for (const host of hosts) {
      for (let i = 0; i < count; i++) this.#keptFor(host).push(await this.#issued(host))
    }
  }

  /** A token that was never given before. It buys a lookup of one key: getMany() of several is refused, and would lose it. */
  spend = (evaluator, elements = 2) => {
    if (elements !== 2)
      throw new Error(`expected a lookup of one key for each token, got ${elements} elements; use get()`)
    const token = this.#keptFor(new URL(evaluator).host).pop()
    if (token) return token
    throw new Error(`expected a token for ${evaluator}, got none; call get() before the lookup`)
  }

  #keptFor(host) {
    if (!this.#kept.has(host)) this.#kept.set(host, [])
    return this.#kept.get(host)
  }

  async #issued(host) {
    const { issuer, issuerUrl, issuerKey } = this.#options
    const client = new publicVerif.Client(publicVerif.BlindRSAMode.PSS)
    const challenge = new TokenChallenge(TOKEN_TYPES.BLIND_RSA.value, issuer, new Uint8Array(), [host])
    const request = await client.createTokenRequest(challenge, issuerKey)
    const response = await fetch(issuerUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/private-token-request' },
      body: request.serialize(),
    })
    if (!response.ok)
      throw new Error(`expected a token of ${issuerUrl}, got status ${response.status}; ask its operator`)
    const reply = client.deserializeTokenResponse(new Uint8Array(await response.arrayBuffer()))
    return (await client.finalize(reply)).serialize()
  }
}
