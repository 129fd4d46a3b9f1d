// `npm start`, `npm test` and their like begin here, on Node built-ins alone: this runs before `npm ci` has.
//
//   node tools/bootstrap.mjs start [--port N]     everything below, then two servers and the page
//                            test [vitest args]   build, lint, Rust tests, TypeScript tests; last line: the sum
//                            build                npm packages, Rust, WebAssembly, TypeScript, the demo
//                            bench [args]         build, then tests/bench
//                            soak [args]          build, then tests/state/soak.ts, or tests/living/soak.ts after
//                                                 `living`: more of what their tests do
//                            lint | format        check or rewrite the sources
//
// What is needed and cannot be installed from here: Node.js ≥ 20.19, rustup, a C linker. Tools go to .tools/,
// stamps of finished steps to .cache/; deleting either folder is always safe.
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildWasm, wasmOutputs } from './build-wasm.mjs'
import { ask, cachedStep, Failure, main, root, run, runPackage, step, whenStopped } from './steps.mjs'

const WASM_BINDGEN = '0.2.130' // the same as in rust-core/wasm/Cargo.toml
const tsc = 'typescript/bin/tsc'
const biome = '@biomejs/biome/bin/biome'
const wasmBindgen = `.tools/bin/wasm-bindgen${process.platform === 'win32' ? '.exe' : ''}`
const typescriptSources = ['packages', 'packages/wasm/generated', 'server', 'demo', 'tsconfig.json']

const commands = { start, test, build, bench, soak, lint, format }
const [command = '', ...args] = process.argv.slice(2)

await main(async () => {
  if (!(command in commands)) throw new Failure(`usage: node tools/bootstrap.mjs ${Object.keys(commands).join(' | ')}`)
  await prepare()
  return commands[command]()
})

// ---- commands -------------------------------------------------------------------------------------

async function start() {
  const port = portWanted()
  await build()
  const { startDemo } = await importDemo()
  console.log('Starting two servers, a watcher in front of each, and the page')
  const demo = await startDemo({ port })
  whenStopped(() => demo.close())
  const seconds = (performance.now() / 1000).toFixed(1) // since this process began
  console.log(`\nPirouette is up after ${seconds} s.\n\n  page      ${demo.url}`)
  for (const [name, url] of Object.entries(demo.servers)) console.log(`  server ${name}  ${url}`)
  console.log('\nStop with Ctrl-C.')
}

async function test() {
  const runs = []
  try {
    await build()
    runs.push(await lintAll(), await testRust(), await testTypeScript())
  } catch (error) {
    console.error(error instanceof Failure ? error.message : error)
    runs.push({ passed: 0, failed: 1 })
  }
  const passed = runs.reduce((sum, one) => sum + one.passed, 0)
  const failed = runs.reduce((sum, one) => sum + one.failed, 0)
  console.log(`${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

async function build() {
  await buildProduct()
  await buildPage()
  const { dataIsReady, prepareData } = await importDemo()
  if (!(await dataIsReady())) await step('Building the two databases of the demo', prepareData)
}

async function bench() {
  return await runOfTests('bench')
}

async function soak() {
  return await runOfTests('soak')
}

async function runOfTests(program) {
  await build()
  const script = join(root, 'tests/run.mjs')
  const { code } = await run(process.execPath, [script, program, ...args], { show: true, mayFail: true })
  return code === 0 ? 0 : 1
}

async function lint() {
  await buildProduct()
  return (await lintAll()).failed === 0 ? 0 : 1
}

async function format() {
  await step('Formatting TypeScript', () => runPackage(biome, ['check', '--write', ...args]))
  await step('Formatting Rust', () => run('cargo', ['fmt', '--all'], { cwd: join(root, 'rust-core') }))
}

// ---- what has to be on the machine ----------------------------------------------------------------

async function prepare() {
  checkMachine()
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
  await installRust()
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

function npm(npmArgs) {
  const script = process.env.npm_execpath
  return script?.endsWith('.js') ? run(process.execPath, [script, ...npmArgs]) : run('npm', npmArgs)
}

/** The toolchain of rust-toolchain.toml; rustup would fetch it by itself, unless told not to. */
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

// ---- build ----------------------------------------------------------------------------------------

/** What the page and the servers need. */
async function buildProduct() {
  await cachedStep(
    'wasm-bindgen',
    `Installing wasm-bindgen ${WASM_BINDGEN} (a minute or two, but once)`,
    { inputs: [], also: [WASM_BINDGEN], outputs: [wasmBindgen] },
    () =>
      run('cargo', ['install', '--root', '.tools', '--force', 'wasm-bindgen-cli', '--version', WASM_BINDGEN], {
        // It works for a fraction of a second: compiling it fast matters more than a fast program.
        env: { CARGO_PROFILE_RELEASE_OPT_LEVEL: '0', CARGO_PROFILE_RELEASE_LTO: 'off' },
      }),
  )
  await cachedStep(
    'wasm',
    'Building the WebAssembly core',
    {
      inputs: ['rust-core', 'rust-toolchain.toml', 'tools/build-wasm.mjs', 'package-lock.json'],
      also: [WASM_BINDGEN],
      outputs: wasmOutputs,
    },
    () => buildWasm(join(root, wasmBindgen)),
  )
  await cachedStep(
    'typescript',
    'Compiling TypeScript',
    {
      inputs: [...typescriptSources, 'package-lock.json'],
      outputs: ['packages/client/dist', 'server/dist', 'demo/build'],
    },
    () => runPackage(tsc, ['-b', 'demo']),
  )
}

async function buildPage() {
  await cachedStep(
    'page',
    'Building the page',
    {
      inputs: ['packages', 'demo', 'packages/wasm/generated', 'package-lock.json'],
      outputs: ['demo/dist/index.html'],
    },
    () => runPackage('vite/bin/vite.js', ['build', 'demo', '--logLevel', 'warn']),
  )
}

function importDemo() {
  return import(pathToFileURL(join(root, 'demo/build/node/start.js')).href)
}

// ---- test and lint --------------------------------------------------------------------------------

/** Runs every check, also after one has failed; what fails is shown. */
async function lintAll() {
  const rustCore = { cwd: join(root, 'rust-core') }
  const checks = {
    'Checking the types of the tests': () => runPackage(tsc, ['-b']),
    'Linting TypeScript': () => runPackage(biome, ['check', '--error-on-warnings']),
    'Checking the format of Rust': () => run('cargo', ['fmt', '--all', '--check'], rustCore),
    'Linting Rust': () => run('cargo', ['clippy', '--workspace', '--all-targets', '--', '-D', 'warnings'], rustCore),
  }
  let failed = 0
  for (const [what, check] of Object.entries(checks)) {
    await step(what, check).catch(error => {
      console.error(error.message)
      failed += 1
    })
  }
  return { passed: 0, failed }
}

async function testRust() {
  const { code, output } = await step('Testing Rust', () =>
    run('cargo', ['test', '--workspace', '--no-fail-fast'], { cwd: join(root, 'rust-core'), mayFail: true }),
  )
  if (code !== 0) console.error(output)
  let passed = 0
  let failed = 0
  for (const [, good, bad] of output.matchAll(/^test result: .*? (\d+) passed; (\d+) failed;/gm)) {
    passed += Number(good)
    failed += Number(bad)
  }
  return { passed, failed: code === 0 ? failed : Math.max(1, failed) }
}

async function testTypeScript() {
  // Now, so that no test waits for an installation. If one is missing, the tests that need it say so.
  await step('Finding Chromium and Firefox', () =>
    run(process.execPath, [join(root, 'tools/browsers.mjs')], { mayFail: true }),
  )
  console.log('Testing TypeScript')
  const report = join(root, '.cache/vitest.json')
  rmSync(report, { force: true })
  const { code } = await runPackage(
    'vitest/vitest.mjs',
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...args],
    { show: true, mayFail: true },
  )
  let passed = 0
  let failed = 0
  if (existsSync(report)) {
    const result = JSON.parse(readFileSync(report, 'utf8'))
    passed = result.numPassedTests
    failed = result.numFailedTests
  }
  // A file that cannot be loaded, or an error outside of any test, fails the run without failing a test.
  return { passed, failed: code === 0 ? failed : Math.max(1, failed) }
}

function portWanted() {
  const at = args.indexOf('--port')
  const text = at >= 0 ? args[at + 1] : process.env.PORT
  if (text === undefined) return undefined
  const port = Number(text)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Failure(`not a port: ${text}`)
  return port
}
