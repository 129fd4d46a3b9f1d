// Checks a signature with the signer's key from a directory, which does not learn whose key was looked up.

import { createPublicKey, verify } from 'node:crypto'
import { open } from '@keyhush/client'
import { publisherKey, servers } from '../servers.js'

const [name, message, signature] = process.argv.slice(2)
if (signature === undefined) throw new Error('expected a name, a message and a signature in base64url')
const map = await open({ servers, publisherKey })
const x = await map.getText(name) // an Ed25519 key, in base64url
await map.close()
if (x === undefined) {
  console.log(`There is nobody called ${name}, and that is proved.`)
  process.exitCode = 1
} else {
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const isTheirs = verify(null, Buffer.from(message), key, Buffer.from(signature, 'base64url'))
  console.log(isTheirs ? `${name} has signed this.` : `${name} has not signed this.`)
  process.exitCode = isTheirs ? 0 : 1
}
