// Compiles rust-core/wasm to WebAssembly and leaves it in packages/wasm/generated/, twice: `core`, the whole of it, for
// servers and Node; and `client`, without the server half, for browsers. Each in three steps, and a fourth for browsers:
//
//   1. cargo         rust-core → target/wasm32-unknown-unknown/release/pirouette_wasm.wasm
//   2. wasm-bindgen  → core.js, core.d.ts, core_bg.wasm
//   3. wasm-opt      core_bg.wasm → itself, smaller and faster
//   4. inline        → inline.js, client_bg.wasm as a string, for apps that ship JavaScript only
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { constants, deflateRawSync } from 'node:zlib'
import { root, run, runPackage } from './steps.mjs'

export const generated = 'packages/wasm/generated'
export const wasmOutputs = [
  ...['core.js', 'core.d.ts', 'core_bg.wasm', 'client.js', 'client.d.ts', 'client_bg.wasm'],
  ...['inline.js', 'inline.d.ts'],
].map(name => `${generated}/${name}`)

const target = 'wasm32-unknown-unknown'

// What every engine with SIMD also has (Chrome 91, Firefox 89, Safari 16.4, Node 16.4).
const features = [
  '--enable-simd',
  '--enable-bulk-memory',
  '--enable-bulk-memory-opt',
  '--enable-sign-ext',
  '--enable-nontrapping-float-to-int',
  '--enable-mutable-globals',
  '--enable-multivalue',
  '--enable-reference-types',
]

/** Builds both with the given `wasm-bindgen` command. */
export async function buildWasm(wasmBindgen) {
  // Made in a folder beside the real one, which is replaced at the end: nobody sees half of a build.
  const finished = join(root, generated)
  const fresh = `${finished}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  await buildOne(wasmBindgen, fresh, 'core', [])
  await buildOne(wasmBindgen, fresh, 'client', ['--no-default-features'])

  const compressed = deflateRawSync(readFileSync(join(fresh, 'client_bg.wasm')), {
    level: constants.Z_BEST_COMPRESSION,
  })
  writeFileSync(
    join(fresh, 'inline.js'),
    `// client_bg.wasm: raw deflate, then base64.\nexport const WASM_DEFLATE_BASE64 = '${compressed.toString('base64')}'\n`,
  )
  writeFileSync(join(fresh, 'inline.d.ts'), 'export declare const WASM_DEFLATE_BASE64: string\n')

  rmSync(finished, { recursive: true, force: true })
  renameSync(fresh, finished)
}

async function buildOne(wasmBindgen, into, name, cargoFeatures) {
  // rustc's flags (SIMD) are in rust-core/.cargo/config.toml, which cargo reads only when started below it. An
  // environment that sets RUSTFLAGS would replace them.
  const rustCore = join(root, 'rust-core')
  await run(
    'cargo',
    [...['build', '--release', '--target', target, '-p', 'pirouette-wasm', '--target-dir', 'target'], ...cargoFeatures],
    { cwd: rustCore, env: { RUSTFLAGS: undefined, CARGO_ENCODED_RUSTFLAGS: undefined } },
  )
  await run(wasmBindgen, [
    ...['--target', 'web', '--out-name', name, '--out-dir', into],
    '--omit-default-module-path', // a URL that bundlers would chase
    '--experimental-reset-state-function', // a new instance after a trap
    join(rustCore, 'target', target, 'release', 'pirouette_wasm.wasm'),
  ])
  const wasm = join(into, `${name}_bg.wasm`)
  await runPackage('binaryen/bin/wasm-opt', [
    '-O3',
    ...features,
    '--strip-debug',
    '--strip-producers',
    '-o',
    wasm,
    wasm,
  ])
}
