// The messages between the page and a worker that runs a server.

import type { Built, Fault, Reply, Stage } from './server.js'

/** Larger files are refused. */
export const MOST_BYTES = 16_000_000

export type ToWorker =
  | { readonly build: Uint8Array<ArrayBuffer> }
  | { readonly request: number; readonly path: string; readonly body: Uint8Array<ArrayBuffer> | undefined }

export type FromWorker =
  | { readonly stage: Stage }
  | { readonly built: Built }
  | { readonly fault: Fault }
  | { readonly request: number; readonly reply: Reply }
