// `npm run fuzz`: runs every decoder on random bytes. cargo-fuzz runs the core's decoders under libFuzzer, which looks for bytes that
// reach new code, without a sanitizer: those need a nightly toolchain, and the core has no unsafe code. fast-check runs TypeScript's.
// New inputs are kept in .cache/fuzz; one that found something becomes a line of rust-core/fuzz/corpus, in hex.
//
//   npm run fuzz                      each decoder for a minute
//   npm run fuzz -- directory wire    these decoders only; `wire` is TypeScript's
//   npm run fuzz -- --seconds 5       each for so long
//   npm run fuzz -- --runs 10000000   so many executions each
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { parseArgs } from 'node:util'
import { cache, environment, Failure, root, run, step } from './steps.mjs'

const rustCore = join(root, 'rust-core')

/** `bin`: the folder of cargo-fuzz, from the root. Returns the exit code. */
export async function fuzz(args, bin) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { seconds: { type: 'string' }, runs: { type: 'string' } },
  })
  const decoders = readdirSync(join(rustCore, 'fuzz/corpus')).map(file => file.replace(/\.hex$/, ''))
  const chosen = positionals.length > 0 ? positionals : [...decoders, 'wire']
  const unknown = chosen.filter(name => name !== 'wire' && !decoders.includes(name))
  if (unknown.length > 0) throw new Failure(`no decoder ${unknown.join(', ')}; there are ${decoders.join(', ')}, wire`)

  const env = { PATH: [join(root, bin), environment.PATH].join(delimiter), RUSTFLAGS: undefined }
  const cargoFuzz = (...more) => [...more.slice(0, 1), '--sanitizer', 'none', ...more.slice(1)]
  const rust = chosen.filter(name => name !== 'wire')
  if (rust.length > 0) {
    await step('Building the fuzzer', () => run('cargo', ['fuzz', ...cargoFuzz('build')], { cwd: rustCore, env }))
  }
  const limit = values.runs === undefined ? `-max_total_time=${values.seconds ?? 60}` : `-runs=${values.runs}`
  let executions = 0
  for (const name of rust) {
    const found = join(cache, 'fuzz', name)
    mkdirSync(found, { recursive: true })
    const folders = [found, unpacked(name)]
    const options = ['-print_final_stats=1', '-max_len=4096', '-timeout=10', limit]
    const { output } = await step(`Fuzzing ${name}`, () =>
      run('cargo', ['fuzz', ...cargoFuzz('run', 'decoders', ...folders), '--', ...options], {
        ...{ cwd: rustCore, env: { ...env, KEYHUSH_DECODER: name } },
      }),
    )
    const count = Number(/^stat::number_of_executed_units:\s*(\d+)/m.exec(output)?.[1] ?? 0)
    executions += count
    console.log(`  ${count} executions`)
  }
  if (rust.length > 0) console.log(`${executions} executions, and nothing found`)
  if (!chosen.includes('wire')) return 0
  const amount = values.runs === undefined ? ['--seconds', values.seconds ?? '60'] : ['--runs', values.runs]
  const { code } = await run(process.execPath, [join(root, 'tests/run.mjs'), 'wire', ...amount], {
    show: true,
    mayFail: true,
  })
  return code === 0 ? 0 : 1
}

/** The inputs of a decoder's corpus. */
export function corpusOf(name) {
  const text = readFileSync(join(rustCore, 'fuzz/corpus', `${name}.hex`), 'utf8')
  const lines = text.trimEnd().split('\n')
  return lines.map(line => Buffer.from(line.replace(/^seed /, ''), 'hex'))
}

/** A folder with the inputs of a decoder's corpus, a file each. */
function unpacked(name) {
  const folder = join(cache, 'fuzz-corpus', name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [number, input] of corpusOf(name).entries()) writeFileSync(join(folder, `${number}`), input)
  return folder
}
