// Builds: WebAssembly, TypeScript, the SDK in one file, the page, the demo's databases. Each is a cached step.
import { copyFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildConfidential, confidentialOutputs } from './build-confidential.mjs'
import { buildPointproofs, pointproofsOutputs } from './build-pointproofs.mjs'
import { buildWasm, wasmOutputs } from './build-wasm.mjs'
import { npm } from './machine.mjs'
import { published } from './release/packages.mjs'
import { cachedStep, report, root, runPackage, step } from './steps.mjs'

export const tsc = 'typescript/bin/tsc'
const wasmTools = ['rust-toolchain.toml', 'tools/wasm', 'tools/build-wasm.mjs', 'package-lock.json']
/** Sources of all that TypeScript makes. The page is among them, and it imports from packages, demo and server. */
const typescriptSources = [
  ...['packages', 'packages/wasm/generated', 'packages/confidential/generated', 'server', 'demo'],
  ...['tsconfig.json', 'package-lock.json', 'tools/build.mjs'],
]

/** Everything, `@keyhush/pointproofs` too. */
export async function buildAll() {
  await build()
  await buildPackaged()
}

/** What `npm start` needs: the page, the servers, and the demo's databases. */
export async function build() {
  await buildProduct()
  await buildPage()
  const { dataIsReady, prepareData } = await importDemo()
  if (!(await dataIsReady())) await step('Building the databases of the demo', () => prepareData(report))
}

/** What the page and the servers need. */
export async function buildProduct() {
  // Every package is published with both licences.
  const licences = published(root).flatMap(folder => ['MIT', 'APACHE'].map(name => `${folder}/LICENSE-${name}`))
  await cachedStep(
    'wasm',
    'Building the WebAssembly core',
    {
      inputs: [
        ...['Cargo.toml', 'Cargo.lock', '.cargo', 'wasm', 'worker'].map(path => `rust-core/${path}`),
        ...['core', 'kernels'].flatMap(crate => [`rust-core/${crate}/Cargo.toml`, `rust-core/${crate}/src`]),
        ...wasmTools,
      ],
      outputs: wasmOutputs,
    },
    buildWasm,
  )
  await cachedStep(
    'confidential-wasm',
    'Building the WebAssembly of confidential databases',
    {
      inputs: [
        ...['Cargo.toml', 'Cargo.lock', '.cargo', 'wasm'].map(path => `packages/confidential/rust/${path}`),
        ...wasmTools,
        'tools/build-confidential.mjs',
      ],
      outputs: confidentialOutputs,
    },
    buildConfidential,
  )
  await cachedStep(
    'typescript',
    'Compiling TypeScript',
    {
      inputs: typescriptSources,
      outputs: [
        'packages/client/dist/node.js',
        'packages/confidential/dist/index.js',
        'packages/protocol/dist',
        'packages/react-native/dist',
        'packages/wasm/dist',
        'server/dist',
        'demo/build',
        ...licences,
      ],
    },
    async () => {
      await runPackage(tsc, ['-b', 'demo', 'packages/client/tsconfig.node.json', 'packages/react-native'])
      for (const licence of licences) copyFileSync(join(root, basename(licence)), join(root, licence))
    },
  )
  await cachedStep(
    'one-file',
    'Bundling the SDK into one file',
    {
      inputs: typescriptSources,
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

/** `@keyhush/pointproofs`, which is optional: only tests, checks and packing need it. */
export async function buildPackaged() {
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
      inputs: [...typescriptSources, 'packages/pointproofs/generated'],
      outputs: ['packages/pointproofs/dist/index.js'],
    },
    () => runPackage(tsc, ['-b', 'packages/pointproofs']),
  )
}

export async function buildPage() {
  await cachedStep(
    'page',
    'Building the page',
    {
      inputs: typescriptSources,
      outputs: ['demo/dist/index.html'],
    },
    () => runPackage('vite/bin/vite.js', ['build', 'demo', '--logLevel', 'warn']),
  )
}

export function importDemo() {
  return import(pathToFileURL(join(root, 'demo/build/node/start.js')).href)
}

/** Downloads the names of 4.5 million packages, from which `startDemo` builds a database. */
export async function fetchLarge() {
  const outputs = ['demo/large/node_modules/.package-lock.json']
  await cachedStep(
    'large',
    'Fetching the large set, 27 MB',
    { inputs: ['demo/large/package-lock.json'], outputs },
    () => npm(['ci', '--no-audit', '--no-fund', '--prefix', 'demo/large']),
  )
  console.log('Building its database takes a minute or two the first time')
}
