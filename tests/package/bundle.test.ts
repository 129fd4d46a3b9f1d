// What an app ships that imports the SDK: within a budget, and without what only some apps need.

import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { build, type Metafile } from 'esbuild'
import { expect, test } from 'vitest'

/** Of which light hints, with the check of what they are made of, are 6 kB; blocks, mode `auto`, its planner and directories in parts 15 kB. */
const BUDGET_BYTES = 160_000

const compressed = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length

const inputsOf = ({ inputs }: Metafile['outputs'][string]) => Object.keys(inputs)

test('what every app loads stays within 160 kB of brotli; the check of signatures is a part of its own, loaded by who needs it', async () => {
  const { outputFiles, metafile } = await build({
    stdin: {
      contents: `export { open } from '@pirouette/client'`,
      resolveDir: fileURLToPath(new URL('..', import.meta.url)),
    },
    bundle: true,
    minify: true,
    splitting: true,
    platform: 'browser',
    format: 'esm',
    target: 'es2022',
    outdir: 'out',
    write: false,
    metafile: true,
  })
  const entry = outputFiles.find(({ path }) => path.endsWith('stdin.js'))!
  expect(compressed(entry.contents)).toBeLessThan(BUDGET_BYTES)
  const outputs = Object.values(metafile.outputs)
  const curves = outputs.filter(output => inputsOf(output).some(input => input.includes('@noble/curves/')))
  expect(curves).toHaveLength(1)
  expect(curves[0]!.entryPoint).toContain('ed25519')
  // From the entry there is no way to it but an import().
  const [name] = Object.entries(metafile.outputs).find(([, output]) => output === curves[0])!
  const kinds = outputs.flatMap(({ imports }) => imports.filter(({ path }) => path === name).map(({ kind }) => kind))
  expect(new Set(kinds)).toEqual(new Set(['dynamic-import']))
})
