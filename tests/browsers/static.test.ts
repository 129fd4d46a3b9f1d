// A page of one origin, and a folder at another: a host has to allow the page (docs/operations/static.md, The host).

import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runKeyhush } from '../../server/test/command.js'
import { withBrowsers } from '../support/browsers.js'
import { temporaryFolder } from '../support/servers.js'
import { type Site, serveFiles, startPage } from '../support/web.js'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let publisherKey = ''
const sites: Site[] = []
let page: Site
let allowing: Site
let silent: Site
/** nobody listens there */
let closed: string

beforeAll(async () => {
  folder = await temporaryFolder()
  const path = (name: string) => join(folder.path, name)
  const printed = await runKeyhush('keygen', '--out', path('key'))
  publisherKey = /public key: (\w+)/.exec(printed)![1]!
  await writeFile(path('list.csv'), 'key,value\notter,river\n')
  await runKeyhush('build', path('list.csv'), '--out', path('dataset'), '--record', path('key.record'))
  const where = ['--folder', path('www'), '--store', path('own'), '--dataset', path('dataset')]
  await runKeyhush('publish', ...where, '--key', path('key'), '--no-expiry')
  allowing = await serveFiles(path('www'), { 'access-control-allow-origin': '*' })
  silent = await serveFiles(path('www'))
  const gone = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => gone.once('listening', resolve))
  closed = `http://127.0.0.1:${(gone.address() as { port: number }).port}`
  await new Promise(resolve => gone.close(resolve))
  page = await startPage([allowing.url, silent.url, closed])
  sites.push(allowing, silent, page)
})
afterAll(async () => {
  await Promise.all(sites.map(site => site.close()))
  await folder.remove()
})

await withBrowsers(['chromium', 'firefox'], 'in %s', (_name, browser) => {
  /** What a new map says of a key, or its error. */
  const asked = async (url: string) => {
    const tab = await browser().newPage()
    try {
      await tab.goto(page.url)
      return await tab.evaluate(
        async (url, publisherKey) => {
          const options = { servers: [url] as [string], publisherKey, development: true, timeoutMs: 5_000 }
          try {
            const map = await keyhush.open(options)
            const found = [map.mode, await map.getText('otter')]
            await map.close()
            return found
          } catch (error) {
            const { code, message } = error as { code: string; message: string }
            return [code, message]
          }
        },
        url,
        publisherKey,
      )
    } finally {
      await tab.close()
    }
  }

  test('that every origin may read: a map opens and answers', async () => {
    expect(await asked(allowing.url)).toEqual(['local', 'river'])
  })

  test('that allows none: the error names the header, and what else it may be; a page cannot tell', async () => {
    const refused = await asked(silent.url)
    const words = /unreachable.*Access-Control-Allow-Origin/
    expect(refused).toEqual(['network', expect.stringMatching(words)])
    const away = await asked(closed)
    expect(away).toEqual(['network', expect.stringMatching(words)])
  })
})
