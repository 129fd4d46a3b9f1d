// `npm run pack`: the packages as they are published, in build/packed/VERSION: tarballs that are checked, and the list of their sums.
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { buildPackaged, buildProduct } from '../build.mjs'
import { npm } from '../machine.mjs'
import { ask, Failure, root, runPackage, step } from '../steps.mjs'
import { faultsOf, published, readJson } from './packages.mjs'
import { listSums } from './sums.mjs'

/** `--out FOLDER`: instead of build/packed/VERSION */
export async function pack(args) {
  const { values } = parseArgs({ args, options: { out: { type: 'string' } } })
  const out = await packRelease(values)
  console.log(`${out} has the tarballs and the list of their sums.`)
}

/** Returns the folder. */
export async function packRelease({ out } = {}) {
  const manifest = readJson(join(root, 'package.json'))
  const folder = resolve(out ?? join(root, 'build/packed', manifest.version))
  const workspaces = published(root)
  const manifests = workspaces.map(workspace => readJson(join(root, workspace, 'package.json')))
  const faults = manifests.flatMap(one => faultsOf(one, manifest))
  if (faults.length > 0) throw new Failure(`These packages cannot be published:\n${faults.join('\n')}`)

  await buildProduct()
  await buildPackaged()
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await step('Packing', () => packTarballs(workspaces, folder))
  const tarballs = Object.fromEntries(manifests.map(one => [one.name, tarballOf(one, folder)]))
  for (const one of manifests) await step(`Checking ${one.name}`, () => checkTarball(tarballs[one.name], one))
  await step('Publishing to nowhere', () => publishPacked(folder, ['--dry-run']))
  await step('Listing sums', async () => {
    const commit = ask('git', ['rev-parse', 'HEAD'])?.trim() ?? 'unknown'
    const list = join(folder, `keyhush-${manifest.version}.sums`)
    const made = `made with Node.js ${process.version}, npm ${ask('npm', ['--version'])?.trim()}`
    writeFileSync(list, await listSums(`Keyhush ${manifest.version}, commit ${commit}, ${made}`, tarballs))
  })
  return folder
}

/** Packs workspaces into a folder. Files have the same modes whatever the umask was when they were made, for tarballs contain them. */
export async function packTarballs(workspaces, folder) {
  const pack = ['pack', ...workspaces.flatMap(workspace => ['-w', workspace]), '--silent']
  const { output } = await npm([...pack, '--dry-run', '--json'])
  for (const { name, files } of JSON.parse(output)) {
    const workspace = workspaces.find(one => readJson(join(root, one, 'package.json')).name === name)
    for (const { path } of files) chmodSync(join(root, workspace, path), path.startsWith('bin/') ? 0o755 : 0o644)
  }
  await npm([...pack, '--pack-destination', folder])
}

/** The file that `npm pack` writes. */
function tarballOf({ name, version }, folder) {
  return join(folder, `${name.slice(1).replace('/', '-')}-${version}.tgz`)
}

/** As tools for packages see it, and as the registry would. */
async function checkTarball(tarball, { exports }) {
  await runPackage('publint/src/cli.js', ['run', tarball, '--strict'])
  const modules = Object.keys(exports).filter(entry => entry.endsWith('.wasm')) // have no types
  await runPackage('@arethetypeswrong/cli/dist/index.js', [
    ...[tarball, '--profile', 'esm-only'],
    ...(modules.length > 0 ? ['--exclude-entrypoints', ...modules.map(entry => entry.slice(2))] : []),
  ])
}

/**
 * Publishes what is packed in a folder, to the registry that npm is set to. `options`: more of `npm publish`.
 * A version as 1.0.0-rc.1 does not become what `npm install` takes. What is there already stays, so a broken run can be repeated.
 */
export async function publishPacked(folder, options) {
  const { version } = readJson(join(root, 'package.json'))
  for (const workspace of published(root)) {
    const manifest = readJson(join(root, workspace, 'package.json'))
    const tag = version.includes('-') ? 'next' : 'latest'
    const { code } = await npm(['view', `${manifest.name}@${version}`, 'version'], { mayFail: true })
    if (code === 0) console.log(`  ${manifest.name}@${version} is there already`)
    else await npm(['publish', tarballOf(manifest, folder), '--access', 'public', '--tag', tag, ...options])
  }
}
