// `keyhush audit --cosign`: answers a log on a port of its own, and looks at once when the log has an epoch that was not checked yet.

import { setTimeout as sleep } from 'node:timers/promises'
import { LOG_KEY, LogError, parseNoteKey } from '@keyhush/protocol/log'
import { Cosigner } from '../audit/cosigner.js'
import { BuildError } from '../base/errors.js'
import { witnessServer } from '../http/witness.js'
import { readableByAll, readKeyFile } from '../publisher/files.js'
import { isOwnName } from '../publisher/log.js'
import { MOST_SUBMISSION_BYTES } from '../publisher/submission.js'
import { ReadTiles } from '../publisher/tiles.js'
import type { Storage } from '../storage/storage.js'
import { addressOf } from './listening.js'

/** The options of `audit` for it, as commander gives them. */
export interface CosigningArguments {
  readonly once?: boolean
  /** name=file */
  readonly cosign?: string
  readonly listen?: { readonly host: string; readonly port: number }
  readonly log?: string
  readonly logFiles?: string
}

/** A publisher waits for ten seconds. */
const PATIENCE_MILLISECONDS = 8000

/** The looks of an auditor, which somebody may wait for. */
export class Looks {
  #waiting: (() => void)[] = []
  #hurry = new AbortController()

  /** Resolves when a look that has begun since has ended, or it takes too long. */
  readonly look = async (): Promise<void> => {
    const ended = new Promise<void>(resolve => this.#waiting.push(resolve))
    this.#hurry.abort()
    await Promise.race([ended, sleep(PATIENCE_MILLISECONDS, undefined, { ref: false })])
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const waiting = this.#waiting
    this.#waiting = []
    this.#hurry = new AbortController()
    try {
      return await work()
    } finally {
      for (const resolve of waiting) resolve()
    }
  }

  /** Ends early if somebody waits. */
  async pause(seconds: number, asked: AbortSignal): Promise<void> {
    const hurry = this.#hurry
    const end = () => hurry.abort()
    asked.addEventListener('abort', end)
    if (!asked.aborted) await sleep(1000 * seconds, undefined, { signal: hurry.signal }).catch(() => {})
    asked.removeEventListener('abort', end)
  }
}

/** An auditor that answers a log. */
export interface Cosigning {
  /** as the cosigner has it */
  readonly size: number
  close(): Promise<void>
}

/** Checks the options, and says which key signs. Resolves to what begins to answer; undefined: it is not wanted. */
export async function cosigning(
  { once, cosign, listen, log: line, logFiles }: CosigningArguments,
  { look }: Looks,
): Promise<((storage: Storage, databaseId: Uint8Array) => Promise<Cosigning>) | undefined> {
  if (cosign === undefined && listen === undefined && line === undefined && logFiles === undefined) return undefined
  if (cosign === undefined || listen === undefined || line === undefined || once)
    throw new BuildError('expected --cosign, --log and --listen together, and no --once, got others; see --help')
  const [name = '', ...file] = cosign.split('=')
  if (!isOwnName(name) || file.length === 0)
    throw new BuildError(
      `--cosign: expected a name without scheme and a key file, as a.example/w=cosign.key, got ${cosign}`,
    )
  const key = await readKeyFile(file.join('='))
  const warning = await readableByAll(file.join('='))
  if (warning !== undefined) process.stderr.write(`keyhush: ${warning}\n`)
  const log = logKey(line)
  process.stderr.write(`keyhush: cosigns as ${Cosigner.keyOf(name, key)}\n`)
  return async (storage, databaseId) => {
    const files = logFiles === undefined ? undefined : ReadTiles.at(logFiles)
    const cosigner = await Cosigner.open({ storage, databaseId, log, name, key, files, look })
    const app = await witnessServer(body => cosigner.answer(body), MOST_SUBMISSION_BYTES)
    await app.listen(listen)
    process.stderr.write(`keyhush: answers the log at ${addressOf(app)}\n`)
    return {
      get size() {
        return cosigner.size
      },
      close: () => app.close(),
    }
  }
}

function logKey(line: string) {
  try {
    return parseNoteKey(line.replace(/^log /, ''), LOG_KEY)
  } catch (error) {
    if (!(error instanceof LogError)) throw error
    throw new BuildError(`--log: ${error.message}; copy what \`keyhush log\` prints`)
  }
}
