// Watches the key of a name in the directory, until Ctrl-C. It makes a key pair for the name at the first run, and prints how to publish
// it. Files keep the secret key, and a mark of the last visit: so changes since then are told, too. No server learns which name it is.

import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { open } from '@keyhush/client'
import { publisherKey, servers } from '../servers.js'

const [name] = process.argv.slice(2)
if (!/^\w+$/.test(name ?? '')) throw new Error('expected your name, in letters and digits')
const [keyFile, markFile] = [`${name}.key`, `${name}.mark`]
if (!existsSync(keyFile)) {
  const { privateKey } = generateKeyPairSync('ed25519')
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
}
const own = createPublicKey(createPrivateKey(readFileSync(keyFile))).export({ format: 'jwk' }).x

const textOf = value => value && new TextDecoder().decode(value)
function inWords(value) {
  if (value === undefined) return 'no key'
  return textOf(value) === own ? 'your key' : `another key, ${textOf(value)}`
}
const meanings = {
  list: 'The list of changes says so.',
  gap: 'Nobody knows what was there before.',
  contradiction: 'Somebody shows different lists to different people. Warn your friends.',
}

const map = await open({ servers, publisherKey, push: true })
// The listener shows, and sends nothing: whoever sees who reacts to a change learns whose key it was.
const watch = await map.watch(
  name,
  ({ value, epoch, how }) => console.log(`Version ${epoch}: the directory has ${inWords(value)}. ${meanings[how]}`),
  {
    since: existsSync(markFile) ? readFileSync(markFile, 'utf8') : undefined,
    save: mark => writeFileSync(markFile, mark),
  },
)
console.log(`The directory has ${inWords(watch.value)}.`)
if (textOf(watch.value) !== own) {
  const op = watch.value === undefined ? 'add' : 'edit'
  console.log(`To publish yours, give the publisher this line: ${JSON.stringify({ op, key: name, value: own })}`)
}
