// `npm run supply`: licences, origins and known faults of what comes from others. And the bills of materials of a release.
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { npm } from '../machine.mjs'
import { ask, root, run, step } from '../steps.mjs'
import { readJson } from './packages.mjs'

const TOOLS = { 'cargo-deny': '0.20.2', 'cargo-cyclonedx': '0.5.9' }
/** The crates that become modules, or a program, of a package. */
const PRODUCTS = [
  ['rust-core', 'wasm'],
  ['rust-core', 'worker'],
  ['packages/pointproofs/rust', 'wasm'],
  ['packages/pointproofs/rust', 'prover'],
  ['packages/confidential/rust', 'wasm'],
]
const WORKSPACES = ['rust-core', 'packages/pointproofs/rust', 'packages/confidential/rust', 'tools/wasm']

/** Returns the exit code. What cannot be asked is named, and fails nothing. */
export async function supply() {
  let [checks, failed, notAsked] = [0, 0, 0]
  const deny = await install('cargo-deny')
  const options = ['--config', join(root, 'tools/release/deny.toml'), '--workspace', '--all-features']
  const check = async (what, command, args, cannotAsk) => {
    checks += 1
    const { code, output } = await step(what, () => run(command, args, { mayFail: true }))
    if (code === 0) return
    const isAway = cannotAsk?.test(output) === true
    console.log(isAway ? '  not asked: the database cannot be reached from here' : output.trimEnd())
    if (isAway) notAsked += 1
    else failed += 1
  }
  for (const workspace of WORKSPACES) {
    const args = [...options, '--manifest-path', join(root, workspace, 'Cargo.toml'), 'check']
    await check(`Licences and origins of crates in ${workspace}`, deny, [...args, 'licenses', 'bans', 'sources'])
    await check(
      `Known faults of crates in ${workspace}`,
      deny,
      [...args, 'advisories'],
      /failed to fetch advisory database/,
    )
  }
  await check(
    'Known faults of npm packages',
    'npm',
    ['audit', '--omit', 'dev'],
    /audit endpoint returned an error|ENOTFOUND/,
  )
  console.log(`${checks} checks: ${failed} failed, ${notAsked} not asked.`)
  return failed === 0 ? 0 : 1
}

/**
 * Writes `npm.cdx.json`, what `npm install` of the tarballs in `folder` brings, and a bill for each crate that becomes a product;
 * in CycloneDX 1.5. `source`: where the crates are.
 */
export async function writeBills(folder, source) {
  await step('Writing the bill of materials of the packages', async () => {
    const app = mkdtempSync(join(realpathSync(tmpdir()), 'keyhush-bill-'))
    try {
      const tarballs = readdirSync(folder).filter(name => name.endsWith('.tgz'))
      const { version } = readJson(join(source, 'package.json'))
      writeFileSync(join(app, 'package.json'), JSON.stringify({ name: 'keyhush', version, private: true }))
      await npm([
        ...['install', '--prefix', app, '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund'],
        ...tarballs.map(name => join(folder, name)),
      ])
      const { output } = await npm([
        'sbom',
        '--prefix',
        app,
        '--package-lock-only',
        '--silent',
        '--sbom-format',
        'cyclonedx',
      ])
      writeFileSync(join(folder, 'npm.cdx.json'), output.replaceAll(`file:${folder}/`, ''))
    } finally {
      rmSync(app, { recursive: true })
    }
  })
  const cyclonedx = await install('cargo-cyclonedx')
  const date = ask('git', ['-C', source, 'log', '-1', '--format=%ct']).trim()
  await step('Writing the bills of materials of the crates', async () => {
    for (const [workspace, crate] of PRODUCTS) {
      const cwd = join(source, workspace, crate)
      const target = crate === 'prover' ? [] : ['--target', 'wasm32-unknown-unknown']
      await run(cyclonedx, ['cyclonedx', '--format', 'json', '--spec-version', '1.5', '--all-features', ...target], {
        ...{ cwd, env: { SOURCE_DATE_EPOCH: date } },
      })
      const name = readdirSync(cwd).find(file => file.endsWith('.cdx.json'))
      writeFileSync(join(folder, name), readFileSync(join(cwd, name), 'utf8').replaceAll(source, ''))
    }
  })
}

/** Compiles a tool into .tools, in a folder of its version. Its path. */
async function install(name) {
  const version = TOOLS[name]
  const folder = join(root, '.tools', `${name}-${version}`)
  const file = join(folder, 'bin', name)
  if (existsSync(file)) return file
  await step(`Installing ${name} ${version}`, () =>
    run('cargo', ['install', '--locked', '--root', folder, name, '--version', version], {
      // A fast compilation matters more than a fast program: it does little itself.
      env: { CARGO_PROFILE_RELEASE_OPT_LEVEL: '0', CARGO_PROFILE_RELEASE_LTO: 'off' },
    }),
  )
  return file
}
