// `npm test` and `npm run test:all`: which files they run, and the sum of what all runs say. A run's result is
// `{ passed, failed, skipped, said, failures }`: numbers, a line for each reason to skip, text to print at the end, and what failed.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { build, buildAll, buildPackaged, buildProduct } from './build.mjs'
import * as lint from './lint.mjs'
import { ask, cache, cachedResult, environment, Failure, root, run, runPackage, step } from './steps.mjs'

const sumOfTest = join(cache, 'test.json')

/** `args`: files, and options for vitest or cargo test; no files: all. Returns the exit code. */
export async function test(args) {
  const files = args.filter(isTestFile).map(fileCalled)
  const options = args.filter(arg => !isTestFile(arg))
  rmSync(sumOfTest, { force: true })
  const built = () => Promise.all([findBrowsers('chromium'), build()])
  const sum = await summed(() => (files.length > 0 ? testFiles(files, options) : testWorkspaces(built, options)))
  if (args.length === 0) writeFileSync(sumOfTest, JSON.stringify(sum))
  return sum.failed === 0 ? 0 : 1
}

/** Everything. `--after-test`: only what `npm test` samples or leaves out, added to its sum. Returns the exit code. */
export async function testAll(args) {
  environment.KEYHUSH_THOROUGH = '1'
  const { failed } = await summed(async () => {
    await Promise.all([findBrowsers(), buildAll()])
    const afterTest = async () => [sumBefore(), ...(await testFiles(sources().filter(isForAll)))]
    const workspaces = args.includes('--after-test') ? afterTest() : testWorkspaces(async () => {})
    const runs = await Promise.all([workspaces, testApart()].map(orFailed))
    return runs.flat()
  })
  return failed === 0 ? 0 : 1
}

/** `built`: builds all, and finds browsers: no test in TypeScript waits for an installation. */
async function testWorkspaces(built, options = []) {
  // Side by side, because neither keeps all cores busy. Rust's have the lower priority: browsers have deadlines.
  // Rust's are not run again while nothing that they read has changed.
  const read = {
    inputs: ['rust-core', 'tests/interop/vectors', 'rust-toolchain.toml'],
    also: [environment.KEYHUSH_THOROUGH ?? ''],
    isKept: runs => runs.every(({ failed }) => failed === 0),
  }
  const rust = () =>
    cachedResult('rust', read, async () => [
      await lint.lintRust({ nice: 5 }),
      await testRust(['--workspace', '--tests'], [], { nice: 5 }),
    ])
  const typescript = async () => {
    await built()
    return [await lint.lintTypeScript(), await testTypeScript(options)]
  }
  return (await Promise.all([typescript(), rust()].map(orFailed))).flat()
}

/** What `npm test` leaves out beside vitest's files: Rust, the types of Pointproofs, and apps with the packed packages. */
async function testApart() {
  const nice = 5
  return [
    await lint.lintPapers(),
    await testPapers({ nice }),
    await lint.lintPointproofs(),
    await testPointproofs(['--workspace'], { nice }),
    await lint.lintConfidential(),
    await testMatrix(),
  ]
}

/** Runs tests. Prints the output of failed silent runs, what failed, what was skipped and why, and the sum. */
async function summed(work) {
  const runs = await orFailed(work())
  for (const { said } of runs) if (said !== undefined) console.error(said)
  const failures = runs.flatMap(({ failed, failures = [], said = '' }) =>
    failed > 0 && failures.length === 0 ? [String(said).slice(-1000)] : failures,
  )
  if (failures.length > 0) console.error(['These failed:', ...failures].join('\n'))
  for (const line of runs.flatMap(({ skipped = [] }) => skipped)) console.log(`skipped: ${line}`)
  const passed = runs.reduce((sum, one) => sum + one.passed, 0)
  const failed = runs.reduce((sum, one) => sum + one.failed, 0)
  console.log(`${passed} passed, ${failed} failed`)
  return { passed, failed, failures }
}

function sumBefore() {
  if (existsSync(sumOfTest)) return JSON.parse(readFileSync(sumOfTest, 'utf8'))
  return failure(new Failure('--after-test: expected the sum of `npm test`, found none; run `npm test` first'))
}

/** The result of a run that could not take place. */
function failure(error) {
  return { passed: 0, failed: 1, said: error instanceof Failure ? error.message : error }
}

/** Turns an error into a failed result, so that other runs go on. */
function orFailed(runs) {
  return runs.catch(error => [failure(error)])
}

function isTestFile(path) {
  return /\.(test\.ts|rs)$/.test(path)
}

/** Whether `npm test` leaves out a file, samples it (tests/support/thorough.ts), or skips the oldest PostgreSQL in it. */
function isForAll(path) {
  if (!isTestFile(path)) return false
  if (path.endsWith('.rs')) return path.startsWith('rust-core/core/') && /\bthorough\(\) \{/.test(textOf(path))
  return path.endsWith('.all.test.ts') || /\busePostgres\(/.test(textOf(path)) || samples(path)
}

const textOf = path => readFileSync(join(root, path), 'utf8')

/** Whether a module, or one that it imports, asks how much is to run. */
function samples(path, seen = new Set()) {
  if (path === 'tests/support/thorough.ts') return true
  if (seen.has(path) || !existsSync(join(root, path))) return false
  seen.add(path)
  const imported = [...textOf(path).matchAll(/from '(\..*)\.js'/g)].map(([, to]) => join(path, '..', `${to}.ts`))
  return imported.some(each => samples(each, seen))
}

function sources() {
  const listed = ask('git', ['ls-files', '--cached', '--others', '--exclude-standard'])?.trim().split('\n') ?? []
  return listed.filter(path => existsSync(join(root, path)))
}

/** Finds a file by its path from the root, or by an end of its path that only one test file has. */
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
  for (const file of rust) runs.push(await testRust(cargoTarget(file), options))
  if (pointproofs.length > 0) runs.push(await testPointproofs([...pointproofs.flatMap(cargoTarget), ...options]))
  if (typescript.length > 0) {
    // These start the demo, or look at its page.
    if (typescript.some(file => /^(demo|tests\/(browsers|e2e))\//.test(file))) await build()
    else await buildProduct()
    if (typescript.some(file => /^packages\/pointproofs\//.test(file))) await buildPackaged()
    // Whole paths, because vitest runs every file whose path contains the text.
    runs.push(await testTypeScript([...typescript.map(file => join(root, file)), ...options]))
  }
  return runs
}

/** cargo's arguments for a file: its integration test, or the crate of its source. The core's integration tests are modules of one. */
function cargoTarget(file) {
  const path = /^(?:rust-core|packages\/pointproofs\/rust)\/(\w+)\/(src|tests)\/(?:.*\/)?(\w+)\.rs$/
  const [, crate, folder, name] = path.exec(file) ?? []
  if (crate === undefined) throw new Failure(`${file} is in no workspace`)
  const test = crate === 'core' ? ['--test', 'all', `${name}::`] : ['--test', name]
  return ['-p', `keyhush-${crate}`, ...(folder === 'tests' ? test : ['--lib'])]
}

export function testPapers({ nice = 0, options = [] } = {}) {
  return cargoTest('Testing the schemes of the papers', options, { cwd: lint.papersFolder, nice })
}

function testPointproofs(options, { nice = 0 } = {}) {
  return cargoTest("Testing Pointproofs' Rust", options, { cwd: lint.pointproofsFolder, nice })
}

function testRust(targets, options, { nice = 0 } = {}) {
  return cargoTest('Testing Rust', [...targets, ...options], { cwd: lint.rustFolder, nice })
}

/** `said`: all of cargo's output, if something failed. */
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
  const failures = [...output.matchAll(/^test (\S+) \.\.\. FAILED$/gm)].map(([, name]) => `${what}: ${name}`)
  return code === 0
    ? { passed, failed, skipped }
    : { passed, failed: Math.max(1, failed), skipped, said: output, failures }
}

/** Tests the packed packages in bundlers, runtimes and frameworks. Each setup counts as a test. */
async function testMatrix() {
  const { output } = await step('Testing the packed packages in bundlers, runtimes and frameworks', () =>
    run(process.execPath, [join(root, 'tests/run.mjs'), 'matrix'], { mayFail: true }),
  )
  const passed = output.match(/^ {2}works /gm)?.length ?? 0
  const failures = output.match(/^ {2}FAILS .*/gm) ?? []
  const isWhole = output.includes('\nAll of them work.')
  return isWhole ? { passed, failed: 0 } : { passed, failed: Math.max(1, failures.length), said: output, failures }
}

/** Finds these browsers, or all. Installs what is missing, if possible: tests that need what is not there are skipped, with the reason. */
function findBrowsers(...names) {
  return step(`Finding ${names.join(', ') || 'browsers'}`, () =>
    run(process.execPath, [join(root, 'tools/browsers.mjs'), ...names], { mayFail: true }),
  )
}

/** `report`: the file that vitest writes. */
export async function testTypeScript(options, report = join(cache, 'vitest.json')) {
  console.log('Testing TypeScript')
  rmSync(report, { force: true })
  const { code } = await runPackage(
    'vitest/vitest.mjs',
    [
      'run',
      '--reporter=default',
      `--reporter=${join(root, 'tools/report.mjs')}`,
      `--outputFile.json=${report}`,
      ...options,
    ],
    { show: true, mayFail: true },
  )
  if (!existsSync(report)) return failure(new Failure('vitest wrote no report'))
  const { numPassedTests: passed, numFailedTests, testResults, outside } = JSON.parse(readFileSync(report, 'utf8'))
  const isWhole = !options.some(option => /^(-t|--testNamePattern)/.test(option))
  const { skipped, unexplained } = isWhole ? skippedOf(testResults) : { skipped: [], unexplained: [] }
  const faults = numFailedTests + outside.length + unexplained.length
  // Vitest's setup, or its end, may fail the run as well.
  const failed = code === 0 ? faults : Math.max(1, faults)
  const failedTests = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages: [why = ''] }) => [`${relative(root, name)}: ${fullName}`, why.split('\n')[0]]),
  )
  const failures = [
    ...failedTests.map(([test, why]) => `${test}: ${why}`),
    ...outside,
    ...unexplained.map(test => `${test}: skipped without a reason; give one through tests/support/needs.ts`),
  ]
  return { passed, failed, skipped, failures }
}

/** `skipped`: a line for each reason and file; `unexplained`: tests that were skipped without a reason. */
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
