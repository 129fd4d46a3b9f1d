// What the thread that has the core and threads that answer tell each other. All of it can be sent as it is.

import type { MessagePort } from 'node:worker_threads'
import type { ErrorReply, FenceClaim, FenceVerdict } from '@keyhush/protocol'
import type { KernelsOptions, Room } from '@keyhush/wasm/worker'
import { Refusal } from '../../base/refusal.js'
import type { Counted } from '../plugins/rate-limit.js'
import type { UnsentOptions } from '../unsent.js'

/** A suite that an epoch answers. Lengths are linear in the number of queries. */
export interface KnownSuite {
  readonly number: number
  /** as `Epoch.queryLimits` */
  readonly limits: Uint32Array
  /** bytes of the answer to one query, and how many more each further one has */
  readonly answerBytes: readonly [one: number, more: number]
}

/** An epoch that threads may answer. */
export interface KnownEpoch {
  readonly manifestBytes: Uint8Array
  /** hex */
  readonly manifestHash: string
  readonly suites: readonly KnownSuite[]
  /** where it is in memory (`DatabaseHandle.entriesDescriptor`) */
  readonly words: Uint32Array
}

export interface KnownDatabase {
  readonly databaseId: Uint8Array
  /** what is to be said of the newest epoch, which everybody may know of */
  readonly newest: { readonly generation: number; readonly epoch: number }
  readonly epochs: readonly KnownEpoch[]
}

/** All that threads know of databases, in the order of `ThreadData.databases`. Right until the gate has another version. */
export interface Known {
  readonly version: number
  readonly databases: readonly KnownDatabase[]
}

/** What a thread is started with. */
export interface ThreadData {
  /** its place among them, from 0 */
  readonly thread: number
  readonly kernels: KernelsOptions
  readonly room: Room
  /** of the gate */
  readonly words: Int32Array
  readonly known: Known
  /** brings what is known from then on; only looked at when the gate has another version */
  readonly news: MessagePort
  readonly host: string
  readonly port: number
  readonly databases: readonly { readonly prefix: string; readonly longest: number }[]
  readonly parts: number
  readonly unsent: UnsentOptions | undefined
  readonly shedAfter: number | undefined
  readonly allowOrigins: readonly string[]
  readonly trustProxy: string | undefined
  readonly rateLimit: number | undefined
  readonly logLevel: string | undefined
  readonly isTimed: boolean
}

/** What a thread asks. `database`: its place in `ThreadData.databases`. */
export type Question =
  | { readonly kind: 'judge'; readonly database: number; readonly claim: FenceClaim }
  /** a query that it cannot answer itself */
  | { readonly kind: 'reply'; readonly database: number; readonly body: Uint8Array }
  | { readonly kind: 'count'; readonly database: number; readonly client: string; readonly queries: number }
  /** whether there are epochs that it has not been told of: it has once this is answered */
  | { readonly kind: 'renew' }
  | { readonly kind: 'log'; readonly lines: string }

/** And what it is told, by the question's kind. */
export interface Replies {
  judge: FenceVerdict
  reply: Uint8Array
  count: Counted
  renew: undefined
  log: undefined
}

/** Where a thread listens. */
export interface Listening {
  readonly address: string
  readonly family: string
  readonly port: number
}

export type FromThread =
  | { readonly id: number; readonly question: Question }
  | { readonly figures: Figures; readonly id: number }
  /** the core's memory is in doubt */
  | { readonly trapped: string }
  | Beginning

/** What it says first: where it listens, or why it cannot, as Node has it. */
export type Beginning = { readonly listening: Listening } | { readonly failed: NodeJS.ErrnoException }

/** prom-client's, as JSON. */
export type Figures = readonly { readonly name: string }[]

export type ToThread =
  | { readonly id: number; readonly reply: unknown }
  | { readonly id: number; readonly refusal: Refused }
  /** the gate is open again */
  | { readonly tell: 'opened' }
  | { readonly tell: 'figures'; readonly id: number }
  /** as Readiness */
  | { readonly tell: 'leave' | 'stop'; readonly reason: string }
  /** what is under way is finished, then it ends */
  | { readonly tell: 'close' }

/** A Refusal. */
export interface Refused {
  readonly statusCode: number
  readonly reply: ErrorReply
}

export function refusedAs({ statusCode, reply }: Refused): Refusal {
  const { code, message, ...details } = reply
  return new Refusal(code, message, statusCode, details)
}
