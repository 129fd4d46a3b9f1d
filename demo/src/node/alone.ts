// The server of the page *One server*, with the phishing list. It takes seconds to prepare, so the page has it started.

import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { linesOf, phishingDomains } from './data.js'
import { keyhush, type RunningServer, START_TIMEOUT_MS, startServer } from './servers.js'

const READY_POLL_MS = 100
const WEEK_SECONDS = 7 * 24 * 60 * 60

/** As docs/operations/one-server.md says. `folder`: of this run; it has the publisher's key. */
export async function startAlone(folder: string, publisherKey: string): Promise<RunningServer> {
  const own = await mkdtemp(join(folder, 'alone-')) // another try finds nothing of this one
  const [list, dataset, key] = [join(own, 'list.txt'), join(own, 'dataset'), join(folder, 'key')]
  const expires = String(Math.floor(Date.now() / 1000) + WEEK_SECONDS)
  await writeFile(list, linesOf(phishingDomains()))
  await keyhush('build', list, '--out', dataset, '--record', `${key}.record`, '--one-server', '--expires', expires)
  const mounted = ['--dataset', `alone=${dataset}`, '--store', `alone=${join(own, 'store')}`]
  const server = await startServer([...mounted, '--publisher-key', publisherKey])
  try {
    const copy = ['--store', join(own, 'copy'), '--dataset', dataset]
    await keyhush('publish', '--servers', `${server.url}/alone`, '--key', key, ...copy)
    const signal = AbortSignal.timeout(START_TIMEOUT_MS)
    while (!(await fetch(`${server.url}/readyz`)).ok) await setTimeout(READY_POLL_MS, undefined, { signal })
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}
