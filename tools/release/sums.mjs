// The list of checksums of a release: SHA-256 and BLAKE3 of each tarball, and of each file in it under the path that it has in
// node_modules, and of each other file. Its form is that of `sha256sum --tag`, so `sha256sum --check` reads it; OpenSSL checks its
// signature.
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative, sep } from 'node:path'
import { blake3 } from '@noble/hashes/blake3.js'
import { Failure, run } from '../steps.mjs'

/**
 * The list, as text.
 * - `tarballs`: their paths, by the package's name
 * - `title`: its first line, a comment
 */
export async function listSums(title, tarballs) {
  const lines = [`# ${title}`]
  const scratch = mkdtempSync(join(tmpdir(), 'keyhush-sums-'))
  try {
    for (const [name, tarball] of Object.entries(tarballs)) {
      lines.push(...linesOf(basename(tarball), tarball))
      const into = join(scratch, name)
      mkdirSync(into, { recursive: true })
      await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', into])
      const files = readdirSync(into, { recursive: true, withFileTypes: true })
        .filter(entry => entry.isFile())
        .map(entry => join(entry.parentPath, entry.name))
      for (const file of files.sort())
        lines.push(...linesOf(`${name}/${relative(into, file).replaceAll(sep, '/')}`, file))
    }
  } finally {
    rmSync(scratch, { recursive: true })
  }
  return textOf(lines)
}

/** Adds these files to a list. */
export function addSums(list, files) {
  appendFileSync(list, textOf(files.flatMap(file => linesOf(basename(file), file))))
}

const textOf = lines => `${lines.join('\n')}\n`

function linesOf(path, file) {
  const bytes = readFileSync(file)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  return [`SHA256 (${path}) = ${sha256}`, `BLAKE3 (${path}) = ${Buffer.from(blake3(bytes)).toString('hex')}`]
}

/** Reads a private key of Ed25519 in PEM. */
export function readReleaseKey(file) {
  let type = 'another file'
  try {
    const key = createPrivateKey(readFileSync(file))
    type = `one of ${key.asymmetricKeyType}`
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch (error) {
    if (error.code === 'ENOENT') type = 'no file'
  }
  throw new Failure(
    `--key ${file}: expected a private key of Ed25519, came ${type}; \`openssl genpkey -algorithm ed25519 -out FILE\` makes one`,
  )
}

/** Writes `FILE.sig`, 64 bytes of Ed25519, and `FILE.pem`, the public key. */
export function signFile(file, key) {
  writeFileSync(`${file}.sig`, sign(null, readFileSync(file), key))
  writeFileSync(`${file}.pem`, createPublicKey(key).export({ format: 'pem', type: 'spki' }))
}
