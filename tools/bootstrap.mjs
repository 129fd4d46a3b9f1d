// Runs every command of package.json: `node tools/bootstrap.mjs COMMAND [arguments]`, which `npm start`, `npm test` … call. Uses Node
// built-ins only, for it runs before `npm ci`. Installed tools go to .tools/, stamps of finished steps to .cache/; both may be deleted.
//
//   start [--port N] [--large]    installs and builds what is missing, then starts the demo's servers and the page
//   test                          builds, lints, then runs Rust's tests beside TypeScript's, in Chromium; the last line is the sum
//   test FILE… [options]          runs these files only; options go to vitest (`-t name`) or cargo test
//   test:all [--after-test]       runs every test: no samples, *.all.test.ts, all browsers, Pointproofs, the papers' schemes, the matrix.
//                                 `--after-test`: only what `npm test` left out, added to its sum
//   build                         builds everything
//   export --servers A,B --out DIR [--publisher-key HEX]   writes the page as files, for servers elsewhere
//   papers [args]                 tests the papers' schemes (rust-core/papers), then writes docs/papers.md and its plots
//   bench [args]                  builds, then tests/bench; `bench capacity --write`: the table of docs/operations/capacity.md;
//                                 `bench processes`: what a second process adds
//   soak [PART] [args]            builds, then random schedules until stopped: of a client's state, or of PART: living, replicas,
//                                 memory, fence (tests/run.mjs)
//   fuzz [args]                   runs the decoders on random bytes (tools/fuzz.mjs)
//   matrix [SETUP…]               tests the packed packages in bundlers, runtimes and frameworks (tests/package/matrix)
//   lint, format                  checks or rewrites the sources
//   docs [--base /PATH/]          builds the documents and the API reference as one site, in build/site; PATH: where its host has it
//   pack [--out DIR]                        makes the tarballs that are published, and the list of their sums, in build/packed
//   release [--dry-run] [--key FILE] X.Y.Z  makes a release in a clone; then commits its version here and tags it
//   release --publish                       publishes the tag that is checked out
//   rehearse                                makes a release in a clone, publishes it on this machine, installs it into new apps
//   supply                                  checks licences, origins and known faults of what comes from others
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { build, buildAll, buildPackaged, buildPage, buildProduct, fetchLarge, importDemo } from './build.mjs'
import { format, lintConfidential, lintPointproofs, lintRust, lintTypeScript, papersFolder } from './lint.mjs'
import { prepare } from './machine.mjs'
import { cachedStep, Failure, main, root, run, step, whenStopped } from './steps.mjs'
import { test, testAll, testPapers } from './test.mjs'

const CARGO_FUZZ = '0.13.2'
const toolsBin = '.tools/bin'

const commands = {
  start,
  test,
  'test:all': testAll,
  build: buildAll,
  export: exportDemo,
  papers,
  bench: after(buildAll, 'bench'),
  soak: after(buildAll, 'soak'),
  fuzz,
  matrix: after(buildProduct, 'matrix'),
  rehearse: after(buildProduct, 'rehearse'),
  lint,
  format,
  docs,
  pack: async args => await (await import('./release/pack.mjs')).pack(args),
  release: async args => await (await import('./release/release.mjs')).release(args),
  supply: async () => await (await import('./release/supply.mjs')).supply(),
}
const [command = '', ...args] = process.argv.slice(2)

await main(async () => {
  if (args[0] === '--help') return console.log(usage())
  if (!(command in commands)) throw new Failure(`usage: node tools/bootstrap.mjs ${Object.keys(commands).join(' | ')}`)
  await prepare()
  return await commands[command](args)
})

/** What the head of this file says of all commands. */
function usage() {
  const lines = readFileSync(import.meta.filename, 'utf8').split('\n')
  return lines
    .filter(line => line.startsWith('//   '))
    .map(line => line.slice(5))
    .join('\n')
}

async function start(args) {
  const wanted = portIn(args)
  const large = args.includes('--large')
  await build()
  if (large) await fetchLarge()
  const { DEFAULT_PORT, startDemo } = await importDemo()
  const demo = await step('Starting three servers, a proxy in front of each, and the page', () =>
    startDemo({ port: wanted, large }),
  )
  whenStopped(() => demo.close())
  const port = wanted ?? DEFAULT_PORT
  if (port !== 0 && new URL(demo.url).port !== String(port)) console.log(`Port ${port} is taken; the page has another.`)
  const seconds = (performance.now() / 1000).toFixed(1) // since this process began
  console.log(`\nKeyhush is up after ${seconds} s.\n\n  page      ${demo.url}`)
  for (const [name, url] of Object.entries(demo.servers)) console.log(`  server ${name}  ${url}`)
  console.log('\nStop with Ctrl-C.')
}

async function exportDemo(args) {
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

/** `--port N`, or $PORT; undefined: neither */
function portIn(args) {
  const at = args.indexOf('--port')
  const text = at >= 0 ? args[at + 1] : process.env.PORT
  if (text === undefined) return undefined
  const port = Number(text)
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Failure(`not a port: ${text}`)
  return port
}

async function papers(args) {
  // The page is about to be written anew.
  const { failed, said } = await testPapers({ options: ['--', '--skip', 'the_page_has_the_figures_of_papers_csv'] })
  if (failed > 0) throw new Failure(said)
  const cargo = ['run', '--release', '--', ...args]
  const { code } = await run('cargo', cargo, { cwd: papersFolder, show: true, mayFail: true })
  if (code !== 0) return 1
  return args.includes('--only') ? 0 : await program('papers', args) // draws the plots
}

/** The command that runs a program of tests/run.mjs once something is built. */
function after(build, name) {
  return async args => {
    await build()
    return await program(name, args)
  }
}

async function program(name, args) {
  const script = join(root, 'tests/run.mjs')
  const { code } = await run(process.execPath, [script, name, ...args], { show: true, mayFail: true })
  return code === 0 ? 0 : 1
}

async function fuzz(args) {
  await buildProduct()
  await cachedStep(
    'cargo-fuzz',
    `Installing cargo-fuzz ${CARGO_FUZZ}`,
    { inputs: [], also: [CARGO_FUZZ], outputs: [`${toolsBin}/cargo-fuzz`] },
    () =>
      run('cargo', ['install', '--locked', '--root', '.tools', '--force', 'cargo-fuzz', '--version', CARGO_FUZZ], {
        // A fast compilation matters more than a fast program: it does little itself.
        env: { CARGO_PROFILE_RELEASE_OPT_LEVEL: '0', CARGO_PROFILE_RELEASE_LTO: 'off' },
      }),
  )
  return await (await import('./fuzz.mjs')).fuzz(args, toolsBin)
}

async function lint() {
  await buildProduct()
  await buildPackaged()
  const runs = [
    ...(await Promise.all([lintTypeScript(), lintRust()])),
    await lintPointproofs(),
    await lintConfidential(),
  ]
  return runs.every(({ failed }) => failed === 0) ? 0 : 1
}

async function docs(args) {
  const { values } = parseArgs({ args, options: { base: { type: 'string' } } })
  await buildProduct() // makes types that the sources import
  const { buildSite } = await import('./site/build.mjs')
  const pages = await buildSite({ to: join(root, 'build/site'), base: values.base })
  console.log(`build/site is the site, of ${pages} pages. Any web server can serve it.`)
}
