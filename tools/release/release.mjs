// `npm run release`: makes a release in a clone of this repository in another folder, so that it has committed files only, and a
// failure leaves no trace here. docs/releasing.md says when to call it.
import { generateKeyPairSync } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ask, Failure, root, run, step } from '../steps.mjs'
import { packRelease, publishPacked } from './pack.mjs'
import { readJson } from './packages.mjs'
import { addSums, readReleaseKey, signFile } from './sums.mjs'
import { writeBills } from './supply.mjs'
import { setVersion } from './version.mjs'

const USAGE = 'usage: npm run release -- [--dry-run] [--key FILE] X.Y.Z, or npm run release -- --publish'

/**
 * - `X.Y.Z`: packs that version, commits and tags it. `--dry-run`: neither. `--key FILE`: signs the list of sums; a dry run without it
 *   signs with a key that it throws away.
 * - `--publish`: packs what is tagged here, and publishes it.
 */
export async function release(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { 'dry-run': { type: 'boolean' }, key: { type: 'string' }, publish: { type: 'boolean' } },
  })
  const [version] = positionals
  if (values.publish ? positionals.length > 0 : positionals.length !== 1) throw new Failure(USAGE)
  const dryRun = values['dry-run'] ?? false
  const key = values.publish ? undefined : keyFor(values.key, dryRun)
  checkClean()
  if (values.publish) return await publish()

  checkVersion(version, ask('git', ['tag', '--list', 'v*']).trim().split('\n').filter(Boolean))
  readChanges(readFileSync(join(root, 'docs/CHANGELOG.md'), 'utf8'), version)
  const out = join(root, 'build/release', version)
  const clone = mkdtempSync(join(realpathSync(tmpdir()), 'keyhush-release-'))
  try {
    const git = (...command) => run('git', command, { cwd: clone, env: identity(dryRun) })
    await step('Cloning', () => git('clone', '--quiet', root, '.'))
    setVersion(clone, version)
    const changelog = join(clone, 'docs/CHANGELOG.md')
    writeFileSync(changelog, dated(readFileSync(changelog, 'utf8'), version, new Date()))
    await git('commit', '--quiet', '--all', '--allow-empty', '--message', `Version ${version}`)
    await git('tag', '--annotate', `v${version}`, '--message', `Keyhush ${version}`)
    mkdirSync(join(root, '.tools'), { recursive: true })
    symlinkSync(join(root, '.tools'), join(clone, '.tools')) // tools make no product, and are kept for the next time
    await run(process.execPath, [join(clone, 'tools/bootstrap.mjs'), 'pack'], { cwd: clone, show: true })
    const made = join(clone, 'build/packed', version)
    await writeBills(made, clone)
    const list = join(made, `keyhush-${version}.sums`)
    const bills = readdirSync(made).filter(name => name.endsWith('.cdx.json'))
    addSums(
      list,
      bills.map(name => join(made, name)),
    )
    signFile(list, key)
    if (!dryRun) {
      await run('git', ['fetch', '--quiet', '--no-tags', clone, 'HEAD'])
      await run('git', ['merge', '--quiet', '--ff-only', 'FETCH_HEAD'])
      await run('git', ['fetch', '--quiet', clone, `refs/tags/v${version}:refs/tags/v${version}`])
    }
    rmSync(out, { recursive: true, force: true })
    cpSync(made, out, { recursive: true })
  } finally {
    rmSync(clone, { recursive: true, force: true })
  }
  console.log(
    dryRun
      ? `\n${out} has the tarballs, the signed list of their sums, the bills of materials.\nA release would commit version ${version}, tag it v${version}, and leave these files.`
      : `\nTagged v${version}. ${out} has the tarballs, the signed list of their sums, the bills of materials.\n\n  git push --atomic origin HEAD v${version}\n\npublishes it: the workflow Release runs \`npm run release -- --publish\`.`,
  )
}

/** Publishes the tag that is checked out, to the registry that npm is set to. GitHub's runners add provenance. */
async function publish() {
  const { version } = readJson(join(root, 'package.json'))
  const tags = ask('git', ['tag', '--points-at', 'HEAD']).trim().split('\n')
  if (!tags.includes(`v${version}`)) {
    throw new Failure(`expected the tag v${version} at HEAD, came ${tags.join(', ') || 'none'}; check out the tag`)
  }
  const out = await packRelease()
  const provenance = process.env.GITHUB_ACTIONS === 'true' ? ['--provenance'] : []
  await step(`Publishing ${version}`, () => publishPacked(out, provenance))
}

/** A dry run without a key has one that nobody keeps. */
function keyFor(file, dryRun) {
  if (file === undefined && dryRun) return generateKeyPairSync('ed25519').privateKey
  if (file === undefined) {
    throw new Failure(
      'expected --key FILE, with which the list of sums is signed; `openssl genpkey -algorithm ed25519 -out FILE` makes one',
    )
  }
  if (existsSync(file) && `${realpathSync(dirname(resolve(file)))}/`.startsWith(`${realpathSync(root)}/`)) {
    throw new Failure(`--key ${file}: expected a file outside the repository, came one in it; keep secrets elsewhere`)
  }
  return readReleaseKey(file)
}

function checkClean() {
  const changed = ask('git', ['status', '--porcelain'])
  if (changed === undefined) throw new Failure('expected a git repository, came none; release from a clone')
  if (changed !== '')
    throw new Failure(`expected a clean tree, came changes; commit or stash them:\n${changed.trimEnd()}`)
}

const NUMBER = '(0|[1-9]\\d*)'
const VERSION = new RegExp(`^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-([a-z]+)\\.${NUMBER})?$`)

/** Throws unless `version` comes after those of all tags. */
export function checkVersion(version, tags) {
  if (!VERSION.test(version)) throw new Failure(`expected a version as 1.2.3 or 1.2.3-rc.1, came ${version}; ${USAGE}`)
  const later = tags.filter(tag => VERSION.test(tag.slice(1)) && compare(version, tag.slice(1)) <= 0)
  if (later.length > 0)
    throw new Failure(`expected a version after ${later.join(', ')}, came ${version}; choose a later one`)
}

/** Negative: `a` comes before `b`. A version with a suffix comes before that without. */
function compare(a, b) {
  const [first, second] = [a, b].map(text => {
    const [, ...parts] = VERSION.exec(text)
    return parts.map((part, i) => (i === 3 ? (part ?? '~') : Number(part ?? 0))) // ~ comes after all letters
  })
  const at = first.findIndex((part, i) => part !== second[i])
  if (at < 0) return 0
  return first[at] < second[at] ? -1 : 1
}

const released = version => version.replace(/-.*$/, '')
const heading = version => new RegExp(`^## ${released(version).replaceAll('.', '\\.')} \\(.*\\)$`, 'm')

/** What the changelog says of a version. Throws if that is nothing. A candidate (1.2.3-rc.1) has the section of its release. */
export function readChanges(changelog, version) {
  const [, section] = changelog.split(heading(version))
  const changes = section?.split(/^## /m)[0].trim() ?? ''
  if (changes === '') {
    throw new Failure(
      `docs/CHANGELOG.md: expected a section "## ${released(version)} (unreleased)" that says what changed, came none; write it`,
    )
  }
  return changes
}

/** The changelog with the date of a release; that of a candidate stays unreleased. */
export function dated(changelog, version, date) {
  if (version.includes('-')) return changelog
  const day = date.toLocaleDateString('en-GB', {
    ...{ day: 'numeric', month: 'long', year: 'numeric' },
    timeZone: 'UTC',
  })
  return changelog.replace(heading(version), `## ${version} (${day})`)
}

/** Who commits and tags: as git is set up here, for the clone does not know. */
function identity(dryRun) {
  const [name, email] = ['user.name', 'user.email'].map(
    setting => ask('git', ['config', setting])?.trim() || (dryRun ? 'dry-run' : undefined),
  )
  if (name === undefined || email === undefined) {
    throw new Failure('expected git’s user.name and user.email, came none; set them with `git config`')
  }
  return {
    ...{ GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email },
    ...{ GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email },
  }
}
