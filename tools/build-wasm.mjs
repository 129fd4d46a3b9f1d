// Compiles rust-core/wasm to WebAssembly, into packages/wasm/generated/. It makes five variants: `core` has everything, for servers
// and Node; browsers load `instant` (instant lookups only), `client` (hints too) or `single` (lookups with one server too), and beside
// it `one-server` (instant lookups with one server, and nothing else). It also makes `worker`, for a server's worker threads.
//
//   1. compile       what all variants have, with cargo, and the tools for the next step (tools/wasm)
//   2. wasm-pack     core.js, core.d.ts, core_bg.wasm, with cargo, wasm-bindgen and wasm-opt (their options are in the crate's
//                    Cargo.toml); it installs nothing
//   3. share         makes the memory of core_bg.wasm readable for worker threads
//   4. worker        worker.wasm, with cargo and wasm-opt; it has no JavaScript
//   5. inline        the browsers' variants as strings, for apps that ship JavaScript only
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, delimiter, join } from 'node:path'
import { environment, Failure, root, run, runPackage, step } from './steps.mjs'

export const generated = 'packages/wasm/generated'
export const wasmOutputs = [
  ...['core.js', 'core.d.ts', 'core_bg.wasm', 'client.js', 'client.d.ts', 'client_bg.wasm'],
  ...['instant.js', 'instant.d.ts', 'instant_bg.wasm', 'inline-instant.js', 'inline-instant.d.ts'],
  ...['single.js', 'single.d.ts', 'single_bg.wasm', 'worker.wasm'],
  ...['one-server.js', 'one-server.d.ts', 'one-server_bg.wasm', 'inline-one-server.js', 'inline-one-server.d.ts'],
  ...['inline.js', 'inline.d.ts', 'inline-single.js', 'inline-single.d.ts'],
].map(name => `${generated}/${name}`)

const tools = '.tools/wasm'
const target = 'wasm32-unknown-unknown'
const stackBytes = 2 ** 20 // rustc's default; the stack lies first in memory
const mostPages = 2 ** 16 // 4 GiB: all that 32 bits address

export async function buildWasm() {
  await inGenerated(generated, buildAll)
}

/** Generates a folder beside the real one and replaces it at the end, so that a half-finished build is never visible. */
export async function inGenerated(folder, build) {
  const finished = join(root, folder)
  const fresh = `${finished}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  await build(fresh)
  rmSync(finished, { recursive: true, force: true })
  renameSync(fresh, finished)
}

// Options for a small rather than a fast variant: it hashes one path and expands one seed, and never a whole database. They apply to
// our crates only, so that dependencies are compiled once for all variants.
const small = (...crates) =>
  crates.flatMap(name => ['--config', `profile.release.package.keyhush-${name}.opt-level="s"`])

async function buildAll(fresh) {
  await buildVariants('rust-core', fresh, {
    core: [],
    single: ['--no-default-features', '--features', 'single'],
    client: ['--no-default-features', '--features', 'hints'],
    instant: ['--no-default-features', '--features', 'instant', ...small('core', 'kernels', 'wasm')],
    'one-server': ['--no-default-features', '--features', 'one-server', ...small('core', 'wasm')],
  })
  shareMemory(join(fresh, 'core_bg.wasm'), join(fresh, 'core.js'))
  await buildWorker(fresh)

  for (const [file, name] of [
    ['instant_bg.wasm', 'inline-instant'],
    ['client_bg.wasm', 'inline'],
    ['single_bg.wasm', 'inline-single'],
    ['one-server_bg.wasm', 'inline-one-server'],
  ]) {
    inline(join(fresh, file), join(fresh, name))
  }
}

/** Writes a module as a hexadecimal string. Servers of JavaScript compress it well. */
export function inline(wasm, to) {
  writeFileSync(`${to}.js`, `// ${basename(wasm)}\nexport const WASM_HEX = '${readFileSync(wasm, 'hex')}'\n`)
  writeFileSync(`${to}.d.ts`, 'export declare const WASM_HEX: string\n')
}

/**
 * Compiles the crate `wasm` of a workspace once for each of `variants`: cargo's options, by the files' name. wasm-pack compiles: cargo
 * would do it again for wasm-pack, because the modules of all variants have one name, and each takes the place of the last.
 */
export async function buildVariants(workspace, into, variants) {
  const compile = async () => {
    await run('cargo', ['fetch', '--locked'], { cwd: join(root, workspace) })
    // Without its features the crate is next to nothing, so that this compiles its dependencies. Cargo would compile them
    // differently by themselves: for the linker, not for optimising across crates.
    const options = ['--release', '--locked', '--target', target, '--no-default-features']
    await step(`Compiling what all variants of ${workspace} have`, () =>
      run('cargo', ['build', ...options], inCrate(workspace, 'none')),
    )
  }
  await Promise.all([compileTools(), compile()])
  // They take turns to compile, by cargo's lock, while the others optimise.
  await Promise.all(
    Object.entries(variants).map(([name, options]) =>
      step(`Compiling and optimising ${name}`, () => pack(workspace, into, name, options)),
    ),
  )
}

function compileTools() {
  const manifest = ['--manifest-path', 'tools/wasm/Cargo.toml', '--target-dir', tools]
  return step('Compiling wasm-pack and wasm-bindgen', () =>
    run('cargo', ['build', '--release', '--locked', ...manifest]),
  )
}

function inCrate(workspace, name) {
  const built = join(root, workspace, 'target')
  const path = [join(root, tools, 'release'), join(root, 'node_modules', '.bin'), environment.PATH].join(delimiter)
  return {
    // cargo reads rustc's flags (SIMD) from the workspace's .cargo/config.toml, if it starts below that folder and RUSTFLAGS is
    // not set.
    cwd: join(root, workspace, 'wasm'),
    env: {
      ...{ PATH: path, ...flags() },
      // Variants share intermediate files. Each has a folder for its module, because all modules have the same name.
      ...{ CARGO_BUILD_BUILD_DIR: built, CARGO_TARGET_DIR: join(built, 'wasm', name) },
    },
  }
}

/**
 * Flags of rustc beside those of the workspace's `.cargo/config.toml`. Panic messages contain the path of a dependency's source. These flags
 * cut it to the crate's folder, so that modules name no folder of the machine that builds them.
 */
function flags() {
  const sources = join(environment.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry/src')
  const registries = existsSync(sources) ? readdirSync(sources) : []
  const remapped = registries.map(name => `--remap-path-prefix=${join(sources, name)}=crates`)
  return {
    ...{ RUSTFLAGS: undefined, CARGO_ENCODED_RUSTFLAGS: undefined },
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS: remapped.join(' '),
  }
}

async function pack(workspace, into, name, options) {
  // A folder for each, because wasm-pack optimises every module in the folder that it writes to.
  const own = join(into, name)
  await run(
    join(root, tools, 'release/wasm-pack'),
    [
      ...['build', '--release', '--target', 'web', '--mode', 'no-install', '--no-pack', '--no-gitignore'],
      ...['--out-dir', own, '--out-name', name, '--', '--locked', ...options],
    ],
    inCrate(workspace, name),
  )
  for (const file of [`${name}.js`, `${name}.d.ts`, `${name}_bg.wasm`]) renameSync(join(own, file), join(into, file))
  quieten(join(into, `${name}.js`))
  rmSync(own, { recursive: true })
}

/** Has the glue touch nothing of the platform when it is loaded: some lack it, and open() then says what. */
function quieten(glue) {
  const script = readFileSync(glue, 'utf8')
  const quiet = script
    .replace(/^let cachedTextDecoder = .*\n.*\n/m, 'let cachedTextDecoder;\n')
    .replace(
      'if (numBytesDecoded >= MAX_SAFARI_DECODE_BYTES)',
      'if (!cachedTextDecoder || numBytesDecoded >= MAX_SAFARI_DECODE_BYTES)',
    )
    .replace(/^const cachedTextEncoder = .*\n\nif (?:.*\n)*?}\n/m, '')
    .replaceAll('cachedTextEncoder.', 'new TextEncoder().')
  if (/^\S.* = new Text|cachedTextEncoder/m.test(quiet) || !quiet.includes('if (!cachedTextDecoder ||')) {
    throw new Failure(`${basename(glue)}: expected other code around its texts; has wasm-bindgen changed?`)
  }
  writeFileSync(glue, quiet)
}

/**
 * Makes the core's memory a shared one, in the finished module: the linker refuses to, because Rust's std for WebAssembly is built for
 * one thread. (With `--no-check-features` it does not, but then wasm-bindgen expects thread-locals: without any, its start function
 * asks for memory of alignment 0, and aborts.) That is safe: only one thread runs the core, and other threads run `worker`. In the JavaScript it changes
 * - how growth of the memory is noticed: a shared buffer keeps its byteLength;
 * - the decoding of strings: TextDecoder refuses shared bytes.
 */
function shareMemory(wasm, glue) {
  const bytes = readFileSync(wasm)
  let at = 8 // after magic and version
  const number = () => {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++]
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) return value
    }
  }
  const leb = value => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >>> 7)])
  for (;;) {
    const start = at
    const [id, length] = [bytes[at++], number()]
    if (id === 5) {
      const [count, flags, pages] = [number(), number(), number()]
      if (count !== 1 || flags > 1) throw new Failure('core_bg.wasm: expected one memory, of its own and not shared')
      const section = [1, 3, ...leb(pages), ...leb(mostPages)]
      if (flags === 1) number() // skips the old maximum of pages
      const parts = [bytes.subarray(0, start), Uint8Array.of(5, section.length, ...section), bytes.subarray(at)]
      writeFileSync(wasm, Buffer.concat(parts))
      break
    }
    at += length
  }
  const script = readFileSync(glue, 'utf8')
  const shared = script
    .replaceAll(/(cached\w+Memory0)\.byteLength === 0/g, '$1.buffer !== wasm.memory.buffer')
    .replace('cachedTextDecoder.decode(bytes)', 'cachedTextDecoder.decode(bytes.slice())')
  if (shared.includes('Memory0.byteLength') || !/Memory0\.buffer !== .*decode\(bytes\.slice\(\)\)/s.test(shared)) {
    throw new Failure('core.js: expected other code around its memory; has wasm-bindgen changed?')
  }
  writeFileSync(glue, shared)
}

async function buildWorker(into) {
  // The core leaves bytes free up to here, for the constants of the worker's instances.
  const settings = readFileSync(join(root, 'rust-core/wasm/build.rs'), 'utf8')
  const end = Number(settings.match(/--global-base=(\d+)/)?.[1])
  const link = [
    ...[`--global-base=${stackBytes}`, '--import-memory', '--shared-memory', '--no-check-features'],
    ...[`--max-memory=${mostPages * 2 ** 16}`, '--export=__stack_pointer', '--export=__heap_base'],
  ]
  await run(
    'cargo',
    [
      ...['rustc', '--release', '--locked', '--target', target, '-p', 'keyhush-worker', '--target-dir', 'target', '--'],
      ...link.flatMap(argument => ['-C', `link-arg=${argument}`]),
    ],
    { cwd: join(root, 'rust-core'), env: flags() },
  )
  const wasm = join(into, 'worker.wasm')
  await runPackage('binaryen/bin/wasm-opt', [
    ...['-O3', '--enable-threads', '--enable-simd', '--enable-bulk-memory', '--enable-bulk-memory-opt'],
    ...['--enable-sign-ext', '--enable-nontrapping-float-to-int', '--enable-mutable-globals', '--strip-debug'],
    ...['-o', wasm, join(root, 'rust-core/target', target, 'release/keyhush_worker.wasm')],
  ])
  const memory = new WebAssembly.Memory({ initial: 2 ** 8, maximum: mostPages, shared: true })
  const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(wasm)), { env: { memory } })
  if (!(instance.exports.__heap_base.value <= end)) {
    throw new Failure(`worker.wasm: expected its data to end by ${end}, where the core's begins`)
  }
}
