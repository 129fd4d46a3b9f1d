// The version and the repository stand in the root's package.json. Every other file that states them follows.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from '../steps.mjs'
import { readJson, workspaces } from './packages.mjs'

const OF_DEPENDENCIES = ['dependencies', 'devDependencies', 'peerDependencies']

/** Sets the version of all packages and crates below `folder`. */
export function setVersion(folder, version) {
  const file = join(folder, 'package.json')
  writeFileSync(file, json({ ...readJson(file), version }))
  for (const [path, text] of followers(folder)) writeFileSync(join(folder, path), text)
}

/** What each file that follows the root's package.json should contain, by path. */
export function followers(folder) {
  const { version, repository } = readJson(join(folder, 'package.json'))
  const texts = new Map()

  const all = workspaces(folder)
  const examples = filesCalled(folder, 'package.json').filter(path => path.startsWith('demo/examples/'))
  for (const path of [...all.map(workspace => `${workspace}/package.json`), ...examples]) {
    const manifest = readJson(join(folder, path))
    const directory = path.replace(/\/package\.json$/, '')
    if (all.includes(directory)) manifest.version = version
    if (!manifest.private) manifest.repository = { ...repository, directory }
    follow(manifest, version)
    texts.set(path, json(manifest))
  }

  const lock = readJson(join(folder, 'package-lock.json'))
  lock.version = version
  for (const workspace of ['', ...all]) {
    lock.packages[workspace].version = version
    follow(lock.packages[workspace], version)
  }
  texts.set('package-lock.json', json(lock))

  const crates = filesCalled(folder, 'Cargo.toml').filter(path => !path.startsWith('tools/'))
  const read = path => readFileSync(join(folder, path), 'utf8')
  for (const path of crates) texts.set(path, read(path).replace(/^version = ".*"$/m, `version = "${version}"`))
  const constant = 'server/src/base/version.ts'
  texts.set(constant, read(constant).replace(/VERSION = '.*'/, `VERSION = '${version}'`))
  const names = crates.map(path => /^name = "(.*)"$/m.exec(read(path))?.[1]).filter(name => name !== undefined)
  const ours = new RegExp(`^(name = "(?:${names.join('|')})"\nversion = )".*"$`, 'gm')
  for (const path of filesCalled(folder, 'Cargo.lock').filter(path => !path.startsWith('tools/'))) {
    texts.set(path, read(path).replace(ours, `$1"${version}"`))
  }
  return texts
}

/** Packages of one release need each other in exactly this version. */
function follow(manifest, version) {
  for (const kind of OF_DEPENDENCIES) {
    for (const name of Object.keys(manifest[kind] ?? {}))
      if (name.startsWith('@keyhush/')) manifest[kind][name] = version
  }
}

function filesCalled(folder, name) {
  return ask('git', ['-C', folder, 'ls-files', name, `*/${name}`])
    .trim()
    .split('\n')
}

const json = value => `${JSON.stringify(value, undefined, 2)}\n`
