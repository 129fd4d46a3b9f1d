// `keyhush-confidential dev`: what it prints works, and its servers are as in production.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { open } from '@keyhush/client/instant'
import { confidential } from '@keyhush/confidential'
import { transform } from '@keyhush/confidential/server'
import { expect, test } from 'vitest'
import { runKeyhush } from '../../../server/test/command.js'
import { temporaryFolder } from '../../../tests/support/servers.js'

const BIN = fileURLToPath(new URL('../bin/keyhush-confidential.js', import.meta.url))

test('its code opens a map, its commands change the list, and its servers withhold downloads', async () => {
  const folder = await temporaryFolder()
  const [list, copy] = [join(folder.path, 'list.csv'), join(folder.path, 'copy.csv')]
  await writeFile(list, 'key,value\notter,river\nheron,shore\n')
  await writeFile(copy, 'key,value\notter,lake\nheron,shore\nauk,cliff\n')
  const child = spawn(process.execPath, [BIN, 'dev', list], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  try {
    let text = ''
    for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      text += chunk
      if (text.includes('Nothing is kept')) break
    }
    const urls = (name: string) =>
      text
        .match(new RegExp(`${name}: \\[(.*)\\]`))![1]!
        .split(', ')
        .map(url => url.slice(1, -1))
    const keyOf = (name: string) => text.match(new RegExp(`${name}: '([0-9a-f]{64})'`))![1]!
    const opened = await open({ servers: urls('servers'), publisherKey: keyOf('publisherKey') })
    const options = { evaluationKey: keyOf('evaluationKey'), evaluators: urls('evaluators') }
    const map = confidential(opened, options)
    expect(await map.getManyText(['otter', 'auk'])).toEqual(['river', undefined])

    const batch = join(folder.path, 'batch.jsonl')
    const [, key] = text.match(/--since \S+ --key (\S+) --out/)!
    await transform({ from: copy, since: list, key: key!, to: batch })
    const [, publish] = text.match(/npx keyhush (publish .*) batch\.jsonl/)!
    await runKeyhush(...publish!.split(' '), batch)
    await map.sync()
    expect(await map.getManyText(['otter', 'auk'])).toEqual(['lake', 'cliff'])
    await map.close()
    const { offers } = (await (await fetch(`${urls('servers')[0]}/v1/info`)).json()) as { offers: object }
    expect(offers).toMatchObject({ blobs: false })
  } finally {
    child.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    await folder.remove()
  }
})
