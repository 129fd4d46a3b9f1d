// Finds nginx, Caddy, PostgreSQL 15 and `litewitness` for tests. For the first two it tries in this order: an environment variable, the system's own,
// Debian's package unpacked into .tools/debian. `node tools/programs.mjs` prints what it finds.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { ask, root, run } from './steps.mjs'

const programs = {
  nginx: { variable: 'KEYHUSH_NGINX', debianPackage: 'nginx', path: 'usr/sbin/nginx', answers: '-v' },
  caddy: { variable: 'KEYHUSH_CADDY', debianPackage: 'caddy', path: 'usr/bin/caddy', answers: 'version' },
}
const SYSTEM_FOLDERS = ['/usr/sbin', '/usr/local/sbin'] // often not on the PATH

/** The path of an executable; undefined: there is none on this machine. Throws if an environment variable names a missing file. */
export async function findProgram(name) {
  const { variable, debianPackage, path, answers } = programs[name]
  const named = process.env[variable]
  if (named) {
    if (existsSync(named)) return named
    throw new Error(`${variable} names ${named}, which does not exist`)
  }
  const works = file => existsSync(file) && ask(file, [answers]) !== undefined
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...SYSTEM_FOLDERS]
  const found = folders.map(folder => join(folder, name)).find(works)
  if (found !== undefined) return found
  const unpacked = join(root, '.tools', 'debian', name)
  if (!existsSync(unpacked)) await unpack(debianPackage, unpacked)
  const file = join(unpacked, path)
  return works(file) ? file : undefined
}

/** Unpacks a package without installing it. Leaves nothing behind if it fails. */
async function unpack(debianPackage, into) {
  if (ask('dpkg-deb', ['--version']) === undefined) return
  const parent = join(root, '.tools', 'debian')
  mkdirSync(parent, { recursive: true })
  const scratch = mkdtempSync(join(parent, 'scratch-'))
  try {
    const download = () => run('apt-get', ['download', debianPackage], { cwd: scratch, mayFail: true })
    let { code } = await download()
    if (code !== 0) {
      await run('apt-get', ['update'], { mayFail: true }) // needs root
      code = (await download()).code
    }
    const archive = readdirSync(scratch).find(file => file.endsWith('.deb'))
    if (code !== 0 || archive === undefined) return
    const files = join(scratch, 'files')
    const { code: extracted } = await run('dpkg-deb', ['--extract', join(scratch, archive), files], { mayFail: true })
    if (extracted === 0 && !existsSync(into)) renameSync(files, into)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/**
 * The folder with the programs of PostgreSQL 15, the oldest version in docs/operations/stores.md: $KEYHUSH_POSTGRES_15, or Debian's, which is
 * installed if this runs as root. undefined: there is none on this machine.
 */
export async function findOldestPostgres() {
  const folder = process.env.KEYHUSH_POSTGRES_15 ?? '/usr/lib/postgresql/15/bin'
  const works = () => ask(join(folder, 'initdb'), ['--version']) !== undefined
  if (works()) return folder
  if (process.env.KEYHUSH_POSTGRES_15 !== undefined)
    throw new Error(`KEYHUSH_POSTGRES_15 names ${folder}, with no initdb`)
  if (process.getuid?.() !== 0 || ask('apt-get', ['--version']) === undefined) return undefined
  // Keeps the package from making and starting a database of its own.
  const settings = '/etc/postgresql-common/createcluster.conf'
  mkdirSync('/etc/postgresql-common', { recursive: true })
  if (!existsSync(settings)) writeFileSync(settings, 'create_main_cluster = false\n')
  const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'DPkg::Options::=--force-confold']
  const apt = (...args) =>
    run('apt-get', [...options, ...args], { env: { DEBIAN_FRONTEND: 'noninteractive' }, mayFail: true })
  await apt('update')
  await apt('install', '--yes', '--no-install-recommends', 'postgresql-15')
  return works() ? folder : undefined
}

/**
 * The programs of tests/interop/witnesses and `litewitness`, compiled at the versions that its go.mod and go.sum pin. undefined: there is no Go
 * on this machine, or its modules cannot be had.
 */
export async function findWitnesses() {
  if (ask('go', ['version']) === undefined) return undefined
  const [cwd, out] = [join(root, 'tests', 'interop', 'witnesses'), join(root, '.tools', 'witnesses')]
  mkdirSync(out, { recursive: true })
  const packages = { witnesses: '.', litewitness: 'filippo.io/torchwood/cmd/litewitness' }
  for (const [name, path] of Object.entries(packages)) {
    const options = { cwd, env: { CGO_ENABLED: '0', GOFLAGS: '-mod=readonly' }, mayFail: true }
    if ((await run('go', ['build', '-o', join(out, name), path], options)).code !== 0) return undefined
  }
  return { witnesses: join(out, 'witnesses'), litewitness: join(out, 'litewitness') }
}

if (process.argv[1] === import.meta.filename) {
  for (const name of Object.keys(programs)) console.log(`${name}: ${(await findProgram(name)) ?? 'not found'}`)
  console.log(`litewitness: ${(await findWitnesses())?.litewitness ?? 'not found'}`)
  console.log(`PostgreSQL 15: ${(await findOldestPostgres()) ?? 'not found'}`)
}
