// Checks that the machine has what cannot be installed from here, and installs the rest: npm packages and Rust's toolchain. Uses
// Node built-ins only, for it runs before `npm ci`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, cachedStep, Failure, root, run, step } from './steps.mjs'

export async function prepare() {
  checkMachine()
  await Promise.all([installNpm(), installRust()])
}

async function installNpm() {
  await cachedStep(
    'npm',
    'Installing npm packages',
    {
      inputs: ['package-lock.json', 'package.json'],
      also: [process.platform, process.arch],
      outputs: ['node_modules/.package-lock.json'],
    },
    () => npm(['ci', '--no-audit', '--no-fund']),
  )
}

function checkMachine() {
  const missing = []
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19) || major === 21 || (major === 22 && minor < 12)) {
    missing.push(`Node.js 20.19 or later (this is ${process.versions.node}): https://nodejs.org`)
  }
  if (ask('rustup', ['--version']) === undefined) {
    missing.push(`rustup, Rust's installer: https://rustup.rs`)
  }
  if (process.platform !== 'win32' && ask('cc', ['--version']) === undefined) {
    missing.push(
      process.platform === 'darwin'
        ? 'a C linker, which Rust links with: xcode-select --install'
        : 'a C linker, which Rust links with: apt-get install build-essential, dnf install gcc, or your system’s way',
    )
  }
  if (missing.length > 0) throw new Failure(`Please install first:\n${missing.map(line => `  - ${line}`).join('\n')}`)
}

/** Runs npm: the one that started this program, if there is one. `options`: of `run`. */
export function npm(npmArgs, options) {
  const script = process.env.npm_execpath
  return script?.endsWith('.js') ? run(process.execPath, [script, ...npmArgs], options) : run('npm', npmArgs, options)
}

/** Installs the toolchain of rust-toolchain.toml. rustup does so by itself, but not if its automatic installation is off. */
async function installRust() {
  const text = readFileSync(join(root, 'rust-toolchain.toml'), 'utf8')
  const channel = /^channel = "(.*)"$/m.exec(text)[1]
  const list = name => [...new RegExp(`^${name} = \\[(.*)\\]$`, 'm').exec(text)[1].matchAll(/"(.*?)"/g)].map(m => m[1])
  const components = list('components')
  const targets = list('targets')

  const installed = ask('rustup', ['component', 'list', '--installed', '--toolchain', channel]) ?? ''
  const wanted = ['rustc', ...components, ...targets.map(target => `rust-std-${target}`)]
  if (wanted.every(name => installed.includes(name))) return
  await step(`Installing Rust ${channel}`, () =>
    run('rustup', [
      ...['toolchain', 'install', channel, '--profile', 'minimal', '--no-self-update'],
      ...components.flatMap(name => ['--component', name]),
      ...targets.flatMap(name => ['--target', name]),
    ]),
  )
}
