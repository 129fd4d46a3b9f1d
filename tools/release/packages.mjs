// Which packages are published, and what must hold of each so that a registry takes it with provenance.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const readJson = file => JSON.parse(readFileSync(file, 'utf8'))

/** The folders of the workspace's packages. */
export function workspaces(folder) {
  return readJson(join(folder, 'package.json')).workspaces.flatMap(pattern => {
    if (!pattern.endsWith('/*')) return [pattern]
    const parent = dirname(pattern)
    const isPackage = name => existsSync(join(folder, parent, name, 'package.json'))
    return readdirSync(join(folder, parent))
      .filter(isPackage)
      .sort()
      .map(name => `${parent}/${name}`)
  })
}

/** The folders of the packages that are published: those that are not private. A package comes after those that it depends on. */
export function published(folder) {
  const manifests = new Map(
    workspaces(folder)
      .map(workspace => [workspace, readJson(join(folder, workspace, 'package.json'))])
      .filter(([, manifest]) => !manifest.private),
  )
  const ordered = new Set()
  const visit = workspace => {
    const { dependencies = {} } = manifests.get(workspace)
    for (const [other, { name }] of manifests) if (name in dependencies) visit(other)
    ordered.add(workspace)
  }
  for (const workspace of manifests.keys()) visit(workspace)
  return [...ordered]
}

const AT_INSTALL = ['preinstall', 'install', 'postinstall', 'prepublish', 'preprepare', 'prepare', 'postprepare']

/** What a registry, or its provenance, would refuse of a package, or what would run code where it is installed. In words. */
export function faultsOf(manifest, { version, repository }) {
  const { scripts = {}, files = [], engines = {}, publishConfig = {} } = manifest
  const faults = []
  const demand = (holds, fault) => holds || faults.push(`${manifest.name}: ${fault}`)
  demand(manifest.version === version, `expected version ${version}, came ${manifest.version}`)
  demand(
    manifest.repository?.type === 'git' && manifest.repository.url === repository?.url,
    'expected the repository of the root’s package.json: provenance compares it with the repository that publishes',
  )
  demand(files.length > 0, 'expected `files`, came none: everything in the folder would be published')
  demand(
    publishConfig.access === 'public',
    'expected publishConfig.access "public": a scope’s packages are private without it',
  )
  demand(typeof manifest.license === 'string', 'expected a license, came none')
  demand(typeof engines.node === 'string', 'expected engines.node, came none')
  demand(manifest.bundleDependencies === undefined, 'expected no bundled dependencies')
  for (const name of AT_INSTALL)
    demand(!(name in scripts), `expected no script ${name}: it would run where the package is installed`)
  return faults
}
