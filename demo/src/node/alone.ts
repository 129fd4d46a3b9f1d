// The server of the page *One server*, with the phishing list. It takes seconds to prepare, so the page has it started.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { linesOf, phishingDomains } from './data.js'
import { keyhush, type RunningServer, startServer } from './servers.js'

const READY_POLL_MS = 100
const WEEK_SECONDS = 7 * 24 * 60 * 60

/** As docs/operations/one-server.md says. `folder`: of this run; it has the publisher's key. */
export async function startAlone(folder: string, publisherKey: string): Promise<RunningServer> {
  const [list, dataset, key] = ['alone.txt', 'alone', 'key'].map(name => join(folder, name)) as [string, string, string]
  const expires = String(Math.floor(Date.now() / 1000) + WEEK_SECONDS)
  await writeFile(list, linesOf(phishingDomains()))
  await keyhush('build', list, '--out', dataset, '--record', `${key}.record`, '--one-server', '--expires', expires)
  const served = ['--dataset', `alone=${dataset}`, '--store', `alone=${join(folder, 'store-alone')}`]
  const server = await startServer([...served, '--publisher-key', publisherKey])
  try {
    const copy = ['--store', join(folder, 'own'), '--dataset', dataset]
    await keyhush('publish', '--servers', `${server.url}/alone`, '--key', key, ...copy)
    while (!(await fetch(`${server.url}/readyz`)).ok) await setTimeout(READY_POLL_MS)
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}
