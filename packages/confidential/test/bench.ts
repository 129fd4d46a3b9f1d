// `npm run bench -- confidential`: what a confidential database costs, beside the same list looked up plainly. Both in turn, in one run.
//
//   npm run bench -- confidential [--records N]   of 32 bytes; default: 10^5
//                                [--lookups n]   of each kind; default: 40

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { brotliCompressSync } from 'node:zlib'
import { open } from '@keyhush/client'
import { confidential } from '@keyhush/confidential'
import { createEvaluator, createOwnerKey, Meter, readShare, transform } from '@keyhush/confidential/server'
import { build } from 'esbuild'
import { Stage } from '../../../tests/bench/stage.js'
import { Evaluation, elementsOf } from '../src/client/evaluation.js'
import { loadSecrets } from '../src/server/module.js'

const VALUE_BYTES = 32
const PLENTY = { perClientDay: 1e9, perNetworkDay: 1e9, totalDay: 1e9 }

const median = (samples: number[]) => samples.sort((a, b) => a - b)[samples.length >> 1]!
const processorMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const say = (figure: number, unit: string, what: string, asked: string) =>
  console.log(`${figure.toFixed(unit === 'ms' ? 2 : 0).padStart(10)} ${unit.padEnd(8)} ${what} (asked: ${asked})`)

/** Returns the exit code. */
export async function bench(args: string[]): Promise<number> {
  const options = {
    records: { type: 'string', default: '100000' },
    lookups: { type: 'string', default: '40' },
  } as const
  const { values } = parseArgs({ args, options })
  const [records, lookups] = [Number(values.records), Number(values.lookups)]
  console.log(`N = ${records}, values of ${VALUE_BYTES} bytes, two servers, two evaluators`)
  await Stage.with(async stage => {
    const at = (name: string) => join(stage.folder, name)
    const lines = Array.from({ length: records }, (_, i) => `key ${i},${`value ${i}`.padEnd(VALUE_BYTES, '.')}\n`)
    await writeFile(at('list.csv'), `key,value\n${lines.join('')}`)
    const key = at('owner.key')
    const evaluationKey = await createOwnerKey(key, { valueBytes: VALUE_BYTES, evaluators: 2, atLeast: 2 })

    const before = processorMs()
    await transform({ from: at('list.csv'), to: at('blind.csv'), key })
    say((records / (processorMs() - before)) * 1000, 'keys/s', 'transform, of one core', '≥ 5000')

    // An evaluator's own part; HTTP comes on top.
    const { SecretHandle } = await loadSecrets()
    const secret = new SecretHandle((await readShare(at('share-1'))).secret)
    for (const [keys, asked] of [
      [1, '≤ 0.3'],
      [64, '≤ 9.75'],
    ] as const) {
      const { elements } = new Evaluation(
        Array.from({ length: keys }, () => new Uint8Array(32).fill(keys)),
        new Uint8Array(32),
      )
      const took = Array.from({ length: 50 }, () => {
        const begun = processorMs()
        secret.multiply(elements)
        return processorMs() - begun
      })
      say(median(took), 'ms', `an evaluator multiplies for ${keys} key${keys === 1 ? '' : 's'}`, asked)
    }
    for (const evaluators of [1, 2, 8]) {
      const shares = Array.from({ length: evaluators }, (_, i) => i + 1)
      const took = Array.from({ length: 20 }, () => {
        const begun = processorMs()
        const evaluation = new Evaluation([new Uint8Array(32).fill(7)], new Uint8Array(32))
        const points = elementsOf(evaluation.elements)!
        evaluation.finish(
          points[0]!,
          shares.map(number => ({ number, points })),
        )
        return processorMs() - begun
      })
      say(median(took), 'ms', `the client's own part, ${evaluators} evaluator${evaluators === 1 ? '' : 's'}`, '≤ 10')
    }

    const name = ['--name', `confidential-${evaluationKey}`]
    const plain = await stage.build('csv', await readFile(at('list.csv'), 'utf8'))
    const blind = await stage.build(
      'csv',
      await readFile(at('blind.csv'), 'utf8'),
      '--value-encoding',
      'base64',
      ...name,
    )
    const [ordinary, withheld] = [
      await stage.pair(() => ['--dataset', plain]),
      await stage.pair(() => ['--dataset', blind, '--no-blobs']),
    ]
    const evaluators: string[] = []
    const apps: Awaited<ReturnType<typeof createEvaluator>>[] = []
    for (const number of [1, 2]) {
      const meter = await Meter.open({ ...PLENTY, countIn: at(`count-${number}`) })
      const app = await createEvaluator({ shares: [await readShare(at(`share-${number}`))], meter })
      apps.push(app)
      evaluators.push(await app.listen({ host: '127.0.0.1', port: 0 }))
    }
    let moved = 0
    const fetched = async (url: string, init: RequestInit): Promise<Response> => {
      const reply = await fetch(url, init)
      if (init.method === 'POST')
        moved += (init.body as Uint8Array).length + Number(reply.headers.get('content-length'))
      return reply
    }
    const opened = async (pair: typeof ordinary) =>
      await open({ servers: pair.map(({ url }) => url), mode: 'instant', integrity: 'server', fetch: fetched } as never)
    const maps = {
      plain: await opened(ordinary),
      confidential: confidential(await opened(withheld), { evaluationKey, evaluators, fetch: fetched }),
    }
    const took = { plain: { wall: [] as number[], bytes: 0 }, confidential: { wall: [] as number[], bytes: 0 } }
    for (let i = 0; i < lookups; i++) {
      for (const kind of ['plain', 'confidential'] as const) {
        const [begun, bytes, number] = [performance.now(), moved, (i * 7919) % records]
        const value = await maps[kind].getText(`key ${number}`)
        if (value !== `value ${number}`.padEnd(VALUE_BYTES, '.'))
          throw new Error(`expected the value of key ${number}, got ${value}`)
        took[kind].wall.push(performance.now() - begun)
        took[kind].bytes = moved - bytes
      }
    }
    const [{ wall: slow, bytes: more }, { wall: quick, bytes: fewer }] = [took.confidential, took.plain]
    say(
      median(slow) - median(quick),
      'ms',
      `a lookup takes more: ${median(slow).toFixed(1)} against ${median(quick).toFixed(1)} ms, loopback`,
      '≤ 12',
    )
    say(more - fewer, 'bytes', 'a lookup moves more', '≤ 700')

    const bundle = { bundle: true, minify: true, format: 'esm', target: 'es2022', write: false } as const
    const entryPoints = [new URL('../dist/index.js', import.meta.url).pathname]
    const { outputFiles } = await build({
      ...bundle,
      entryPoints,
      external: ['@keyhush/client/beside', '@keyhush/protocol'],
    })
    say(
      brotliCompressSync(outputFiles[0]!.contents).length,
      'bytes',
      'the code that an app loads more, brotli',
      '≤ 20 000',
    )
    for (const each of [...Object.values(maps), ...apps]) await each.close()
  })
  return 0
}
