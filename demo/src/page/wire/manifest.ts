// Fetches the manifest of the epoch that a request names.

import { decodeManifest, LONGEST_MANIFEST_BYTES, type Manifest } from '@keyhush/protocol'
import { readBounded } from './bounded.js'
import type { Exchange } from './recorder.js'

/** `url`: the database's base URL at a server. */
export async function fetchManifest(url: string, { sent }: Exchange): Promise<Manifest> {
  const view = new DataView(sent.buffer, sent.byteOffset, sent.byteLength)
  const of = `generation=${view.getUint32(24, true)}&epoch=${view.getUint32(28, true)}`
  const options = { credentials: 'omit', referrerPolicy: 'no-referrer', cache: 'no-store' } as const
  const reply = await fetch(`${url}/v1/manifest?${of}`, options)
  return decodeManifest(await readBounded(reply, LONGEST_MANIFEST_BYTES))
}
