// `keyhush-confidential dev`: a key of its own, the list transformed, two evaluators in this process, and `keyhush dev` for the servers.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { addressOf, OperatorError, type ValueEncoding } from '@keyhush/server/beside'
import { createEvaluator } from './evaluator.js'
import { createOwnerKey, readShare } from './files.js'
import { Meter } from './meter.js'
import { transform } from './transform.js'

/** Elements a day: enough for whoever tries things out. */
const LIMIT = 1_000_000

const KEYHUSH = fileURLToPath(new URL('../bin/keyhush.js', import.meta.resolve('@keyhush/server/beside')))

export async function dev(
  file: string,
  { valueEncoding, valueBytes }: { readonly valueEncoding: ValueEncoding; readonly valueBytes: number },
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'keyhush-confidential-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const [key, blind] = [join(folder, 'owner.key'), join(folder, 'blind.csv')]
  const evaluationKey = await createOwnerKey(key, { valueBytes, evaluators: 2, atLeast: 2 })
  await transform({ from: file, to: blind, key, valueEncoding })
  const evaluators = await Promise.all(
    [1, 2].map(async number => {
      const countIn = join(folder, `count-${number}`)
      const limits = { perClientDay: LIMIT, perNetworkDay: LIMIT, totalDay: LIMIT }
      const meter = await Meter.open({ ...limits, countIn })
      const share = await readShare(join(folder, `share-${number}`))
      const app = await createEvaluator({ shares: [share], meter, allowOrigins: ['localhost'] })
      await app.listen({ host: '127.0.0.1', port: 0 })
      return app
    }),
  )
  const urls = evaluators.map(app => `'${addressOf(app)}'`).join(', ')
  process.stdout.write(
    `const confidentially = { evaluationKey: '${evaluationKey}', evaluators: [${urls}] }\n// confidential(await open({ … }), confidentially)\n\n`,
  )
  const options = ['--value-encoding', 'base64', '--name', `confidential-${evaluationKey}`]
  const servers = spawn(process.execPath, [KEYHUSH, 'dev', blind, ...options], { stdio: 'inherit' })
  // A Ctrl-C of the terminal reaches both; other signals are passed on.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => servers.kill('SIGTERM'))
  const code = await new Promise(resolve => servers.once('exit', resolve))
  await Promise.all(evaluators.map(app => app.close()))
  if (code !== 0) throw new OperatorError('keyhush dev has ended; the lines above say why')
}
