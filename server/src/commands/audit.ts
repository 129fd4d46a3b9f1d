// `keyhush audit`: makes every epoch of a database anew. stdout gets a line of JSON for each; what is wrong goes to stderr.

import { MAX_SERVERS } from '@keyhush/protocol'
import { Audit, type Checked } from '../audit/audit.js'
import { BuildError, PublishError } from '../base/errors.js'
import { Metrics } from '../http/metrics.js'
import { Readiness } from '../http/readiness.js'
import { readPublicKey } from '../publisher/files.js'
import { openStorage, storageKind } from '../storage/kinds.js'
import { type Cosigning, type CosigningArguments, cosigning, Looks } from './cosigning.js'
import { addressOf } from './listening.js'
import { withProgress } from './progress.js'
import { onceFree } from './store.js'

/** The options of `audit` as commander gives them. */
export interface AuditArguments extends CosigningArguments {
  readonly servers: readonly string[]
  readonly publisherKey: string
  readonly store: string
  readonly once?: boolean
  readonly every: number
  readonly metrics?: { readonly host: string; readonly port: number }
}

/** Without `once` it goes on until SIGTERM or SIGINT. Throws ContradictionError; with `once` PublishError, unless all is right. */
export async function audit(given: AuditArguments): Promise<void> {
  const { servers, store, once, every, metrics, publisherKey } = given
  const origins = new Set(servers.map(url => (URL.canParse(url) ? new URL(url).origin : 'null')))
  if (origins.size < servers.length || origins.has('null') || servers.length > MAX_SERVERS) {
    const expected = `the URLs of up to ${MAX_SERVERS} servers, each of an origin of its own`
    throw new BuildError(`--servers: expected ${expected}, got ${servers.join(',')}; see --help`)
  }
  if (storageKind(store).isShared)
    throw new BuildError(
      `--store: expected a directory, where evidence can be written, got a connection; name a directory`,
    )
  const key = await readPublicKey(publisherKey)
  const looks = new Looks()
  const cosign = await cosigning(given, looks)
  const following = once ? undefined : untilAsked()
  const storage = await onceFree(() => openStorage(store))
  const options = { servers, storage, folder: store, publisherKey: key, onEpoch: print }
  const auditing = await withProgress(onProgress => Audit.open({ ...options, onProgress })).catch(async error => {
    await storage.close()
    throw error
  })
  let problem: string | undefined
  let witness: Cosigning | undefined
  const size = cosign && (() => witness?.size ?? 0)
  const figures = metrics && (await figuresOf(auditing, () => problem, size))
  try {
    await figures?.listen(metrics)
    if (figures !== undefined) process.stderr.write(`keyhush: figures at ${addressOf(figures)}/metrics\n`)
    for (;;) {
      const before: string | undefined = problem
      problem = await looks.run(() => problemOf(auditing.look(), once))
      if (problem !== before) process.stderr.write(`keyhush: ${problem ?? 'all is right again'}\n`)
      if (following === undefined) return
      if (auditing.checked !== undefined) witness ??= await cosign?.(storage, auditing.checked.manifest.databaseId)
      await looks.pause(every, following)
      if (following.aborted) return
    }
  } finally {
    await witness?.close()
    await figures?.close()
    await auditing.close()
  }
}

/** What is wrong for now, if anything is. */
async function problemOf(look: Promise<void>, once: boolean | undefined): Promise<string | undefined> {
  try {
    await look
    return undefined
  } catch (error) {
    if (once || !(error instanceof PublishError)) throw error
    return error.message
  }
}

function print(checked: Checked): void {
  process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), ...checked })}\n`)
}

/** Aborted by the first SIGTERM or SIGINT, after which the look under way ends. */
function untilAsked(): AbortSignal {
  const asked = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => asked.abort())
  return asked.signal
}

/** An app for /metrics, /healthz and /readyz. `cosigned`: of an auditor that is a witness. */
async function figuresOf(auditing: Audit, problem: () => string | undefined, cosigned?: () => number) {
  const [metrics, readiness] = [new Metrics(), new Readiness()]
  readiness.watch('not all epochs are checked', problem)
  metrics.gauges({
    problems: ['Problems that /readyz lists', () => readiness.problems.length],
    audit_epoch: ['Newest epoch that was checked; 0: none', () => auditing.checked?.manifest.epoch ?? 0],
    audit_shown_epoch: ['Newest epoch that a server showed at the last look', () => auditing.shown],
    audit_faults: ['Servers that were away or wrong at the last look', () => auditing.faults],
    audit_agreed_seconds: [
      'When all servers last had the newest epoch, checked and not expired, in seconds since 1970; 0: not since the start',
      () => auditing.agreed,
    ],
    ...(cosigned !== undefined && {
      audit_cosigned_epoch: ["Last epoch of the log's checkpoint that was signed last; 0: none", cosigned] as const,
    }),
  })
  return await metrics.server(readiness)
}
