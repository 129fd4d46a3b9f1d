// A witness in this process, for tests of what needs its signatures (c2sp.org/tlog-witness). It remembers in memory alone.

import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import {
  type Checkpoint,
  continues,
  encodeNoteKey,
  LOG_KEY,
  LogError,
  type NoteKey,
  noteKey,
  parseNoteKey,
  signersOf,
  WITNESS_KEY,
} from '@keyhush/protocol/log'
import { ed25519 } from '@noble/curves/ed25519.js'
import { verifies } from '../base/ed25519.js'
import { cosigned, MOST_SUBMISSION_BYTES, parseSubmission } from '../publisher/submission.js'

/** What it does wrong: nothing at all, all that it is asked, or it is away. */
export type WitnessFault = 'signs everything' | 'away' | undefined

export interface TestWitness {
  readonly url: string
  /** for the line `witness <name> <key> <url>` of a policy */
  readonly key: string
  /** From now on it signs this log, of the line that `keyhush log` prints. */
  add(log: string): void
  /** entries of a log that it has seen, by the log's name */
  seen(origin: string): number
  misbehave(how: WitnessFault): void
  close(): Promise<void>
}

type Reply = readonly [status: number, text: string]

/**
 * Starts a witness on a free port of this machine.
 * @throws {Error} if it cannot listen
 * @example
 * const witness = await startWitness('witness.example/a')
 * witness.add(await PublisherLog.create('log', 'example.com/keys', databaseId))
 * await appendFile('log/policy', `witness A ${witness.key} ${witness.url}\nquorum A\n`)
 */
export async function startWitness(name: string): Promise<TestWitness> {
  const { secretKey, publicKey } = ed25519.keygen()
  const key = noteKey(name, WITNESS_KEY, publicKey)
  const logs = new Map<string, NoteKey>()
  const seen = new Map<string, Checkpoint>()
  let fault: WitnessFault

  async function answer(body: string): Promise<Reply> {
    const { old, path, note, checkpoint } = parseSubmission(body)
    const log = logs.get(checkpoint.origin)
    if (log === undefined) return [404, 'unknown log']
    if (!(await signersOf(note, [log], verifies)).has(log)) return [403, 'not signed by this log']
    const before = seen.get(log.name) ?? { size: 0, root: new Uint8Array() }
    if (fault !== 'signs everything') {
      if (old !== before.size) return [409, `${before.size}\n`]
      if (!continues(before, checkpoint, path)) return [422, 'not continued']
    }
    if (checkpoint.size > before.size) seen.set(log.name, checkpoint)
    return [200, cosigned(note.text, key, secretKey, Date.now() / 1000)]
  }
  const replyTo = async (request: IncomingMessage): Promise<Reply> => {
    if (request.url !== '/add-checkpoint' || request.method !== 'POST') return [404, 'not found']
    const body = await buffer(request)
    if (body.length > MOST_SUBMISSION_BYTES) return [413, 'too long']
    return await answer(body.toString()).catch((error: unknown) => {
      if (error instanceof LogError) return [400, error.message]
      throw error
    })
  }
  const server = createServer(async (request, response) => {
    if (fault === 'away') return void request.destroy()
    const [status, text] = await replyTo(request)
    response.writeHead(status, { 'content-type': status === 409 ? 'text/x.tlog.size' : 'text/plain' }).end(text)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    key: encodeNoteKey(key),
    add(line) {
      const log = parseNoteKey(line.replace(/^log /, ''), LOG_KEY)
      logs.set(log.name, log)
    },
    seen: origin => seen.get(origin)?.size ?? 0,
    misbehave(how) {
      fault = how
    },
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
