// `npm start`, `npm test` and their like begin here, on Node built-ins alone: this runs before `npm ci` has.
//
//   node tools/bootstrap.mjs start [--port N] [--large]  everything below, then two servers and the page
//                            test                 build, lint, Rust tests beside TypeScript tests; last line: the sum
//                            test FILE… [options] these files alone; options go to vitest (`-t name`) or cargo test
//                            test:all             the same with nothing left to a sample, *.all.test.ts, the papers' schemes, the matrix;
//                                                 `--after-test`: what the `npm test` before it has left, added to its sum
//                            export --servers A,B --out DIR [--publisher-key HEX]  the page as files, its servers elsewhere
//                            build                npm packages, Rust, WebAssembly, TypeScript, the demo
//                            papers [args]        the founding papers' schemes (rust-core/papers): tests, then docs/papers.md and its plots
//                            bench [args]         build, then tests/bench;
//                                                 `bench capacity --write` the table of docs/operations.md,
//                                                 `bench processes` what a second process adds
//                            soak [PART] [args]   build, then what nobody waits for: tests/world/soak.ts, or after `replicas`, `memory`
//                                                 or `fence` the one of that name in tests/soak
//                            fuzz [args]          the decoders on bytes nobody meant (tools/fuzz.mjs)
//                            matrix [SETUP…]      the packed packages in what apps are built and run with (tests/package/matrix.ts)
//                            lint | format        check or rewrite the sources
//                            docs                 the API reference, into docs/api
//
// What is needed and cannot be installed from here: Node.js ≥ 20.19, rustup, a C linker. Tools go to .tools/,
// stamps of finished steps to .cache/; deleting either folder is always safe.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { buildPointproofs, pointproofsOutputs } from './build-pointproofs.mjs'
import { buildWasm, wasmOutputs } from './build-wasm.mjs'
import { checkDocs } from './check-docs.mjs'
import {
  ask,
  cache,
  cachedStep,
  environment,
  Failure,
  main,
  root,
  run,
  runPackage,
  step,
  whenStopped,
} from './steps.mjs'

const CARGO_FUZZ = '0.13.2'
const tsc = 'typescript/bin/tsc'
const biome = '@biomejs/biome/bin/biome'
const toolsBin = '.tools/bin'
const papersFolder = join(root, 'rust-core/papers')
const pointproofsFolder = join(root, 'packages/pointproofs/rust')
const sumOfTest = join(cache, 'test.json')
const wasmTools = ['rust-toolchain.toml', 'tools/wasm', 'tools/build-wasm.mjs', 'package-lock.json']
const typescriptSources = ['packages', 'packages/wasm/generated', 'server', 'demo', 'tsconfig.json']

const commands = {
  start,
  test,
  'test:all': testAll,
  build: buildAll,
  export: exportDemo,
  papers,
  bench,
  soak,
  fuzz,
  matrix,
  lint,
  format,
  docs,
}
const [command = '', ...args] = process.argv.slice(2)

await main(async () => {
  if (!(command in commands)) throw new Failure(`usage: node tools/bootstrap.mjs ${Object.keys(commands).join(' | ')}`)
  await prepare()
  return commands[command]()
})

// ---- commands -------------------------------------------------------------------------------------

async function start() {
  const port = portWanted()
  const large = args.includes('--large')
  await build()
  if (large) await fetchLarge()
  const { startDemo } = await importDemo()
  console.log('Starting two servers, a watcher in front of each, and the page')
  const demo = await startDemo({ port, large })
  whenStopped(() => demo.close())
  const seconds = (performance.now() / 1000).toFixed(1) // since this process began
  console.log(`\nKeyhush is up after ${seconds} s.\n\n  page      ${demo.url}${large ? '/#names' : ''}`)
  for (const [name, url] of Object.entries(demo.servers)) console.log(`  server ${name}  ${url}`)
  console.log('\nStop with Ctrl-C.')
}

async function exportDemo() {
  const { values } = parseArgs({
    args,
    options: { servers: { type: 'string' }, out: { type: 'string' }, 'publisher-key': { type: 'string' } },
  })
  const servers = values.servers?.split(',') ?? []
  if (servers.length !== 2 || values.out === undefined) throw new Failure('expected --servers URL,URL and --out FOLDER')
  await buildProduct()
  await buildPage()
  const { exportPage } = await importDemo()
  const databases = await exportPage({ servers, out: values.out, publisherKey: values['publisher-key'] }).catch(
    error => {
      throw new Failure(error.message)
    },
  )
  console.log(`${values.out} is the page, with ${databases.join(', ')}. Any web server can serve it.`)
}

async function test() {
  const files = args.filter(isTestFile).map(fileCalled)
  const options = args.filter(arg => !isTestFile(arg))
  rmSync(sumOfTest, { force: true })
  const sum = await summed(() => (files.length > 0 ? testFiles(files, options) : testWorkspaces(options)))
  if (args.length === 0) writeFileSync(sumOfTest, JSON.stringify(sum))
  return sum.failed === 0 ? 0 : 1
}

/** Everything; `--after-test`: what `npm test` has left to a sample or to others, and its sum. */
async function testAll() {
  environment.KEYHUSH_THOROUGH = '1'
  const { failed } = await summed(async () => {
    const before = args.includes('--after-test')
    const runs = before ? [sumBefore(), ...(await testFiles(sources().filter(isForAll)))] : await testWorkspaces()
    const apart = [await lintPapers(), await testPapers(), await lintPointproofs(), await testPointproofs()]
    return [...runs, ...apart, await testMatrix()]
  })
  return failed === 0 ? 0 : 1
}

async function testWorkspaces(options = []) {
  await build()
  await buildPackaged()
  // Side by side, for neither keeps all cores busy. Rust's give way: browsers have deadlines.
  const rust = async () => [
    await lintRust(),
    await testRust(['--workspace'], [], { nice: 5 }),
    await testPointproofs(['-p', 'keyhush-pointproofs', '--test', 'vectors'], { nice: 5 }),
  ]
  const typescript = async () => [await lintTypeScript(), await testTypeScript(options)]
  return (await Promise.all([typescript(), rust()].map(orFailed))).flat()
}

/** Runs tests; says what failed of what is silent, what was skipped and why, and the sum. */
async function summed(work) {
  const runs = await orFailed(work())
  for (const { said } of runs) if (said !== undefined) console.error(said)
  for (const line of runs.flatMap(({ skipped = [] }) => skipped)) console.log(`skipped: ${line}`)
  const passed = runs.reduce((sum, one) => sum + one.passed, 0)
  const failed = runs.reduce((sum, one) => sum + one.failed, 0)
  console.log(`${passed} passed, ${failed} failed`)
  return { passed, failed }
}

function sumBefore() {
  if (existsSync(sumOfTest)) return JSON.parse(readFileSync(sumOfTest, 'utf8'))
  return failure(new Failure('--after-test: expected the sum of `npm test`, found none; run `npm test` first'))
}

/** What a run comes to that could not be. */
function failure(error) {
  return { passed: 0, failed: 1, said: error instanceof Failure ? error.message : error }
}

/** While others go on. */
function orFailed(runs) {
  return runs.catch(error => [failure(error)])
}

function isTestFile(path) {
  return /\.(test\.ts|rs)$/.test(path)
}

/** Whether `npm test` runs nothing of a file, or a sample (tests/support/thorough.ts), or not with the oldest PostgreSQL. */
function isForAll(path) {
  if (!isTestFile(path) || (path.endsWith('.rs') && !path.startsWith('rust-core/core/'))) return false
  const text = readFileSync(join(root, path), 'utf8')
  return /\.all\.test\.ts$/.test(path) || /\bTHOROUGH\b|\bthorough\(\) \{|\busePostgres\(/.test(text)
}

function sources() {
  const listed = ask('git', ['ls-files', '--cached', '--others', '--exclude-standard'])?.trim().split('\n') ?? []
  return listed.filter(path => existsSync(join(root, path)))
}

/** A file by its path from the root, or by enough of its end to tell it from all others. */
function fileCalled(name) {
  const found = sources().filter(path => path === name || (isTestFile(path) && path.endsWith(`/${name}`)))
  if (found.length === 1) return found[0]
  throw new Failure(`${name} is ${found.length === 0 ? 'no test file' : `one of:\n${found.join('\n')}`}`)
}

async function testFiles(files, options = []) {
  const [rust, pointproofs] = [false, true].map(isPackaged =>
    files.filter(file => file.endsWith('.rs') && file.startsWith('packages/') === isPackaged),
  )
  const typescript = files.filter(file => file.endsWith('.ts'))
  if (typescript.some(file => file.endsWith('.all.test.ts'))) environment.KEYHUSH_THOROUGH = '1'
  const runs = []
  if (rust.length > 0) runs.push(await testRust(rust.flatMap(cargoTarget), options))
  if (pointproofs.length > 0) runs.push(await testPointproofs([...pointproofs.flatMap(cargoTarget), ...options]))
  if (typescript.length > 0) {
    // Some start the demo, or look at its page.
    if (typescript.some(file => /^(demo|tests\/(browsers|e2e))\//.test(file))) await build()
    else await buildProduct()
    if (typescript.some(file => file.startsWith('packages/pointproofs/'))) await buildPackaged()
    // As a whole path, so that it is no other's end.
    runs.push(await testTypeScript([...typescript.map(file => join(root, file)), ...options]))
  }
  return runs
}

/** What `cargo test` calls a file: an integration test, or the crate whose source it is in. */
function cargoTarget(file) {
  const path = /^(?:rust-core|packages\/pointproofs\/rust)\/(\w+)\/(src|tests)\/(?:.*\/)?(\w+)\.rs$/
  const [, crate, folder, name] = path.exec(file) ?? []
  if (crate === undefined) throw new Failure(`${file} is in no workspace`)
  return ['-p', `keyhush-${crate}`, ...(folder === 'tests' ? ['--test', name] : ['--lib'])]
}

async function buildAll() {
  await build()
  await buildPackaged()
}

async function build() {
  await buildProduct()
  await buildPage()
  const { dataIsReady, prepareData } = await importDemo()
  if (!(await dataIsReady())) await step('Building the databases of the demo', prepareData)
}

async function bench() {
  const only = args.indexOf('--only')
  const parts = only < 0 ? '' : (args[only + 1] ?? '')
  if (parts.split(',').includes('demo') || args.includes('--all') || args.includes('--write')) await fetchLarge()
  return await runOfTests('bench')
}

async function papers() {
  const { failed, said } = await testPapers()
  if (failed > 0) throw new Failure(said)
  const cargo = ['run', '--release', '--', ...args]
  const { code } = await run('cargo', cargo, { cwd: papersFolder, show: true, mayFail: true })
  if (code !== 0) return 1
  return args.includes('--only') ? 0 : await program('papers', args) // which draws what was written
}

async function soak() {
  return await runOfTests('soak')
}

async function runOfTests(name) {
  await build()
  await buildPackaged()
  return await program(name, args)
}

async function program(name, programArgs) {
  const script = join(root, 'tests/run.mjs')
  const { code } = await run(process.execPath, [script, name, ...programArgs], { show: true, mayFail: true })
  return code === 0 ? 0 : 1
}

async function fuzz() {
  await buildProduct()
  await cachedStep(
    'cargo-fuzz',
    `Installing cargo-fuzz ${CARGO_FUZZ}`,
    { inputs: [], also: [CARGO_FUZZ], outputs: [`${toolsBin}/cargo-fuzz`] },
    () =>
      run('cargo', ['install', '--locked', '--root', '.tools', '--force', 'cargo-fuzz', '--version', CARGO_FUZZ], {
        // It does little itself: compiling it fast matters more than a fast program.
        env: { CARGO_PROFILE_RELEASE_OPT_LEVEL: '0', CARGO_PROFILE_RELEASE_LTO: 'off' },
      }),
  )
  const { fuzz: run } = await import('./fuzz.mjs')
  return await run(args, toolsBin)
}

async function matrix() {
  await buildProduct()
  return await program('matrix', args)
}

async function lint() {
  await buildProduct()
  await buildPackaged()
  const runs = await Promise.all([lintTypeScript(), lintRust()])
  return runs.every(({ failed }) => failed === 0) ? 0 : 1
}

/** The names of 4.5 million packages, which `startDemo` builds a database of. */
async function fetchLarge() {
  const outputs = ['demo/large/node_modules/.package-lock.json']
  await cachedStep(
    'large',
    'Fetching the large set, 27 MB',
    { inputs: ['demo/large/package-lock.json'], outputs },
    () => npm(['ci', '--no-audit', '--no-fund', '--prefix', 'demo/large']),
  )
  console.log('Building its database takes a minute or two the first time')
}

async function docs() {
  await buildProduct() // which makes types that the sources import
  await cachedStep(
    'typedoc',
    'Installing TypeDoc',
    { inputs: ['tools/reference/package-lock.json'], outputs: ['tools/reference/node_modules/.package-lock.json'] },
    () => npm(['ci', '--no-audit', '--no-fund', '--prefix', 'tools/reference']),
  )
  await step('Writing docs/api', () =>
    run(process.execPath, [
      'tools/reference/node_modules/typedoc/bin/typedoc',
      '--options',
      'tools/reference/typedoc.json',
    ]),
  )
}

async function format() {
  await step('Formatting TypeScript', () => runPackage(biome, ['check', '--write', ...args]))
  for (const cwd of [join(root, 'rust-core'), pointproofsFolder, papersFolder]) {
    await step('Formatting Rust', () => run('cargo', ['fmt', '--all'], { cwd }))
  }
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
    'wasm',
    'Building the WebAssembly core',
    {
      inputs: [
        ...['Cargo.toml', 'Cargo.lock', '.cargo', 'core/Cargo.toml', 'core/src', 'kernels', 'wasm', 'worker'].map(
          path => `rust-core/${path}`,
        ),
        ...wasmTools,
      ],
      outputs: wasmOutputs,
    },
    buildWasm,
  )
  await cachedStep(
    'typescript',
    'Compiling TypeScript',
    {
      inputs: [...typescriptSources, 'package-lock.json'],
      outputs: ['packages/client/dist/node.js', 'server/dist', 'demo/build'],
    },
    () => runPackage(tsc, ['-b', 'demo', 'packages/client/tsconfig.node.json']),
  )
  await cachedStep(
    'one-file',
    'Bundling the SDK into one file',
    {
      inputs: ['packages', 'packages/wasm/generated', 'package-lock.json'],
      outputs: ['packages/client/dist/keyhush.js'],
    },
    async () => {
      const { build } = await import('esbuild')
      const [from, outfile] = ['index', 'keyhush'].map(name => join(root, `packages/client/dist/${name}.js`))
      await build({
        ...{ entryPoints: [from], outfile, bundle: true, minify: true },
        ...{ format: 'esm', platform: 'browser', target: 'es2022' },
      })
    },
  )
}

/** `@keyhush/pointproofs`, which the product does without. */
async function buildPackaged() {
  await cachedStep(
    'pointproofs-wasm',
    'Building the WebAssembly of Pointproofs',
    {
      inputs: [
        ...['Cargo.toml', 'Cargo.lock', '.cargo', 'pointproofs/Cargo.toml', 'pointproofs/src', 'wasm'].map(
          path => `packages/pointproofs/rust/${path}`,
        ),
        ...wasmTools,
        'tools/build-pointproofs.mjs',
      ],
      outputs: pointproofsOutputs,
    },
    buildPointproofs,
  )
  await cachedStep(
    'pointproofs',
    'Compiling @keyhush/pointproofs',
    {
      inputs: [...typescriptSources, 'packages/pointproofs/generated', 'package-lock.json'],
      outputs: ['packages/pointproofs/dist/index.js'],
    },
    () => runPackage(tsc, ['-b', 'packages/pointproofs']),
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

function lintTypeScript() {
  return lintAll({
    'Checking the types of the tests': () => runPackage(tsc, ['-b']),
    'Checking what documents and comments refer to': async () => checkDocs(),
    'Linting TypeScript': () => runPackage(biome, ['check', '--error-on-warnings']),
  })
}

function lintRust() {
  return lintCargo('Rust', join(root, 'rust-core'))
}

function lintCargo(what, cwd) {
  return lintAll({
    [`Checking the format of ${what}`]: () => run('cargo', ['fmt', '--all', '--check'], { cwd }),
    [`Linting ${what}`]: () =>
      run('cargo', ['clippy', '--workspace', '--all-targets', '--', '-D', 'warnings'], { cwd }),
  })
}

/** Runs every check, also after one has failed; what fails is shown. */
async function lintAll(checks) {
  let failed = 0
  for (const [what, check] of Object.entries(checks)) {
    await step(what, check).catch(error => {
      console.error(error.message)
      failed += 1
    })
  }
  return { passed: 0, failed }
}

function lintPapers() {
  return lintCargo('the schemes of the papers', papersFolder)
}

function testPapers() {
  return cargoTest('Testing the schemes of the papers', [], { cwd: papersFolder })
}

function lintPointproofs() {
  return lintCargo('Pointproofs', pointproofsFolder)
}

function testPointproofs(options = ['--workspace'], { nice = 0 } = {}) {
  return cargoTest("Testing Pointproofs' Rust", options, { cwd: pointproofsFolder, nice })
}

function testRust(targets = ['--workspace'], options = [], { nice = 0 } = {}) {
  return cargoTest('Testing Rust', [...targets, ...options], { cwd: join(root, 'rust-core'), nice })
}

/** `said`, for who prints it when nothing else is printed any more: all that cargo printed, if something failed. */
async function cargoTest(what, options, where) {
  const { code, output } = await step(what, () =>
    run('cargo', ['test', '--no-fail-fast', ...options], { ...where, mayFail: true }),
  )
  let passed = 0
  let failed = 0
  for (const [, good, bad] of output.matchAll(/^test result: .*? (\d+) passed; (\d+) failed;/gm)) {
    passed += Number(good)
    failed += Number(bad)
  }
  const skipped = [...output.matchAll(/^test (\S+) \.\.\. ignored(?:, (.*))?$/gm)].map(
    ([, name, why = 'no reason given']) => `${why}: ${name}`,
  )
  return code === 0 ? { passed, failed, skipped } : { passed, failed: Math.max(1, failed), skipped, said: output }
}

/** The packed packages in what apps are built and run with; a setup counts as a test. */
async function testMatrix() {
  const { output } = await step('Looking up from what apps are built and run with', () =>
    run(process.execPath, [join(root, 'tests/run.mjs'), 'matrix'], { mayFail: true }),
  )
  const passed = output.match(/^ {2}works /gm)?.length ?? 0
  const failed = output.match(/^ {2}FAILS /gm)?.length ?? 0
  const isWhole = output.includes('\nAll of them work.')
  return isWhole ? { passed, failed } : { passed, failed: Math.max(1, failed), said: output }
}

async function testTypeScript(options) {
  if (options.every(option => !isTestFile(option))) {
    // Now, so that no test waits for an installation. If one is missing, the tests that need it say so.
    await step('Finding Chromium, Firefox and WebKit', () =>
      run(process.execPath, [join(root, 'tools/browsers.mjs')], { mayFail: true }),
    )
  }
  console.log('Testing TypeScript')
  const report = join(root, '.cache/vitest.json')
  rmSync(report, { force: true })
  const { code } = await runPackage(
    'vitest/vitest.mjs',
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...options],
    { show: true, mayFail: true },
  )
  if (!existsSync(report)) return failure(new Failure('vitest wrote no report'))
  const { numPassedTests: passed, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
  // A file that cannot be loaded, or an error outside of any test, fails the run without failing a test.
  const failed = code === 0 ? numFailedTests : Math.max(1, numFailedTests)
  if (options.some(option => /^(-t|--testNamePattern)/.test(option))) return { passed, failed }
  const { skipped, unexplained } = skippedOf(testResults)
  if (unexplained.length === 0) return { passed, failed, skipped }
  const said = `These were skipped and say no reason (tests/support/needs.ts):\n${unexplained.join('\n')}`
  return { passed, failed: failed + unexplained.length, skipped, said }
}

/** A line for each reason and file, and the tests that have none. */
function skippedOf(testResults) {
  const counts = new Map()
  const unexplained = []
  for (const { name: file, assertionResults } of testResults) {
    for (const { status, fullName, meta } of assertionResults) {
      if (status === 'passed' || status === 'failed') continue
      const path = relative(root, file)
      const line = `needs ${meta.needs}: ${path}`
      if (meta.needs === undefined) unexplained.push(`${path}: ${fullName}`)
      else counts.set(line, (counts.get(line) ?? 0) + 1)
    }
  }
  return { skipped: [...counts].map(([line, count]) => `${line} (${count})`), unexplained }
}

function portWanted() {
  const at = args.indexOf('--port')
  const text = at >= 0 ? args[at + 1] : process.env.PORT
  if (text === undefined) return undefined
  const port = Number(text)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Failure(`not a port: ${text}`)
  return port
}
