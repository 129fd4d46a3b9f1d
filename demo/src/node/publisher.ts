// Publishes changes of the phishing list and of the key directory to their servers. It makes a key at each start: the servers get the public half, and the
// secret half stays in a folder of this run.

import { randomBytes } from 'node:crypto'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { toHex } from '@keyhush/protocol'
import { createKeyFile, type KeyPair, PublishError, PublisherRecord, publish } from '@keyhush/server'
import type { Change, DatabaseName, Outcome, Published, ServerName } from '../page/backstage.js'
import { OWNER } from '../page/backstage.js'
import { hostOf } from '../page/domains.js'
import { keyOf, publisherRecord } from './data.js'

/** base URLs of those that have the database */
type ServerUrls = Readonly<Partial<Record<ServerName, string>>>

export class Publisher {
  readonly #key: KeyPair
  readonly #record: PublisherRecord
  readonly #published: Published[] = []
  /** settles after all batches so far: each is built on the epoch before */
  #queue: Promise<unknown> = Promise.resolve()

  private constructor(key: KeyPair, record: PublisherRecord) {
    this.#key = key
    this.#record = record
  }

  /** Makes a key in `folder`, and a copy of the record of the built databases. */
  static async create(folder: string): Promise<Publisher> {
    const record = join(folder, 'record')
    await cp(publisherRecord, record, { recursive: true })
    return new Publisher(await createKeyFile(join(folder, 'key')), await PublisherRecord.open(record))
  }

  /** 64 hex digits, for `keyhush serve --publisher-key` and `open({ publisherKey })` */
  get publicKey(): string {
    return toHex(this.#key.publicKey)
  }

  /** The other half: a lie needs signatures too (false-list.ts). */
  get secretKey(): Uint8Array {
    return this.#key.secretKey
  }

  /** What this run has published, oldest first. Waits for batches under way: pages may have seen their epochs already. */
  async published(): Promise<readonly Published[]> {
    await this.#queue
    return this.#published
  }

  /** Signs the servers' first epoch. */
  async sign(servers: ServerUrls, database: DatabaseName | 'breached'): Promise<void> {
    await this.#send(servers, database)
  }

  /** Publishes one change of the phishing list, after earlier ones. A refusal is an outcome, and does not reject. */
  change(servers: ServerUrls, change: Change): Promise<Outcome> {
    return this.#inTurn(() => this.#change(servers, change))
  }

  /** Puts a false key in the place of the owner's, or the owner's back. */
  replaceKey(servers: ServerUrls, byFalse: boolean): Promise<Outcome<{ readonly epoch: number }>> {
    const value = byFalse ? randomBytes(64).toString('hex') : keyOf(OWNER)
    return this.#inTurn(() => this.#publish(servers, 'keys', { op: 'edit', key: OWNER, value }, 'hex'))
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const outcome = this.#queue.then(work)
    this.#queue = outcome.catch(() => {})
    return outcome
  }

  async #change(servers: ServerUrls, { op, domain: typed }: Change): Promise<Outcome> {
    const domain = hostOf(typed)
    if (domain === undefined) return { refusals: [{ server: null, reason: 'there is no domain in this' }] }
    const operation = { op, key: domain, ...(op === 'add' && { value: '' }) }
    const outcome = await this.#publish(servers, 'phishing', operation)
    if ('refusals' in outcome) return outcome
    const published = { ...outcome.published, op, domain, at: Date.now() }
    this.#published.push(published)
    return { published }
  }

  async #publish(
    servers: ServerUrls,
    database: DatabaseName,
    operation: object,
    encoding?: 'hex',
  ): Promise<Outcome<{ readonly epoch: number }>> {
    try {
      const line = Buffer.from(`${JSON.stringify(operation)}\n`)
      const { epoch, repeated } = await this.#send(servers, database, line, encoding)
      if (repeated) return { refusals: [{ server: null, reason: `that is what epoch ${epoch} has done already` }] }
      return { published: { epoch } }
    } catch (error) {
      if (!(error instanceof PublishError)) throw error
      return { refusals: refusalsOf(error, servers) }
    }
  }

  #send(servers: ServerUrls, database: DatabaseName | 'breached', operations?: Uint8Array, encoding?: 'hex') {
    return publish({
      servers: Object.values(servers).map(url => `${url}/${database}`),
      key: this.#key,
      record: this.#record,
      operations,
      encoding,
      again: true,
    })
  }
}

/** A PublishError's message has a line for each server, which begins with the server's URL. */
function refusalsOf({ message }: PublishError, servers: ServerUrls) {
  return message.split('\n').map(line => {
    const names = Object.keys(servers) as ServerName[]
    const server = names.find(name => line.startsWith(`${servers[name]}/`)) ?? null
    // Leaves out URL, status, code and line number: the page shows the reason only.
    return { server, reason: server === null ? line : line.replace(/^\S+: (\d+ \w+: )?(line 1: )?/, '') }
  })
}
