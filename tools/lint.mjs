// The checks of `npm run lint`, which `npm test` runs too, and `npm run format`.
import { join } from 'node:path'
import { tsc } from './build.mjs'
import { checkDocs } from './check-docs.mjs'
import { root, run, runPackage, step } from './steps.mjs'
import { checkWords } from './words.mjs'

const biome = '@biomejs/biome/bin/biome'
export const rustFolder = join(root, 'rust-core')
export const papersFolder = join(root, 'rust-core/papers')
export const pointproofsFolder = join(root, 'packages/pointproofs/rust')
const confidentialFolder = join(root, 'packages/confidential/rust')

export function lintTypeScript() {
  return lintAll({
    'Checking the types of the tests': () => runPackage(tsc, ['-b', 'tests']),
    'Checking what documents and comments refer to': async () => checkDocs(),
    'Counting words and long sentences': async () => checkWords(),
    'Linting TypeScript': () => runPackage(biome, ['check', '--error-on-warnings']),
  })
}

export function lintRust({ nice = 0 } = {}) {
  return lintCargo('Rust', rustFolder, { nice })
}

function lintCargo(what, cwd, { nice = 0, more = {} } = {}) {
  return lintAll({
    [`Checking the format of ${what}`]: () => run('cargo', ['fmt', '--all', '--check'], { cwd }),
    [`Linting ${what}`]: () =>
      run('cargo', ['clippy', '--workspace', '--all-targets', '--', '-D', 'warnings'], { cwd, nice }),
    ...more,
  })
}

/** Runs every check, also after one has failed, and prints the failures. */
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

export function lintPapers() {
  return lintCargo('the schemes of the papers', papersFolder)
}

export function lintPointproofs() {
  return lintCargo('Pointproofs', pointproofsFolder, {
    more: { 'Checking the types of Pointproofs': () => runPackage(tsc, ['-b', 'packages/pointproofs/test']) },
  })
}

export function lintConfidential() {
  return lintCargo('confidential databases', confidentialFolder, {
    more: {
      'Checking the types of confidential databases': () => runPackage(tsc, ['-b', 'packages/confidential/test']),
    },
  })
}

/** `args`: for Biome. */
export async function format(args) {
  await step('Formatting TypeScript', () => runPackage(biome, ['check', '--write', ...args]))
  for (const cwd of [rustFolder, pointproofsFolder, confidentialFolder, papersFolder]) {
    await step('Formatting Rust', () => run('cargo', ['fmt', '--all'], { cwd }))
  }
}
