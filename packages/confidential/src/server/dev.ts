// `keyhush-confidential dev`: a key of its own, the list transformed, two evaluators in this process, and servers as `keyhush dev` has them.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addressOf, dev as devServers, type ValueEncoding } from '@keyhush/server/beside'
import { createEvaluator } from './evaluator.js'
import { createOwnerKey, readShare } from './files.js'
import { Meter } from './meter.js'
import { transform } from './transform.js'

/** What apps import: this file does not. */
const [CLIENT, CONFIDENTIAL] = ['@keyhush/client/instant', '@keyhush/confidential']

/** Elements a day: enough for whoever tries things out. */
const LIMIT = 1_000_000

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
  const reading = valueEncoding === 'utf8' ? '' : ` --value-encoding ${valueEncoding}`
  const text = (servers: readonly string[], publisherKey: string, changing: string) => `\
Two servers and two evaluators run on this machine until Ctrl-C. Paste into an app:

import { open } from '${CLIENT}'
import { confidential } from '${CONFIDENTIAL}'

const opened = await open({
  servers: [${servers.map(url => `'${url}'`).join(', ')}],
  publisherKey: '${publisherKey}',
})
const map = confidential(opened, {
  evaluationKey: '${evaluationKey}',
  evaluators: [${urls}],
})

To change the data, copy ${file}, edit the copy, and run

npx keyhush-confidential transform COPY --since ${file} --key ${key}${reading} --out batch.jsonl
npx keyhush publish ${changing} --value-encoding base64 batch.jsonl

Nothing is kept: the next run has other keys, other ports and none of your changes.
`
  const options = { host: '127.0.0.1', misbehave: {}, logLevel: 'warn', valueEncoding: 'base64' } as const
  try {
    await devServers(blind, { ...options, name: `confidential-${evaluationKey}` }, text)
  } catch (error) {
    await Promise.all(evaluators.map(app => app.close()))
    throw error
  }
}
