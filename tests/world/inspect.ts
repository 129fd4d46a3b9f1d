// Reads a stored hint with its journal, at the newest epoch. The worlds compare it to the last bit.

import { decodeManifest } from '@keyhush/protocol'
import type { Core } from '@keyhush/wasm'
import { fromStored, layoutHandle } from '../support/wasm.js'
import type { Disk } from './disk.js'
import { decodeCheckpoint } from './forms.js'

export async function storedHint(core: Core, { store }: Disk, hint: string, newest: Uint8Array) {
  const { checkpoint, manifest: bytes, directory, entries } = await store.readHint(Buffer.from(hint, 'hex'))
  const [then, now] = [decodeManifest(bytes), decodeManifest(newest)]
  const layout = layoutHandle(core, then)
  const client = fromStored(core, checkpoint, form =>
    core.reopenClient(form, layout, then.commitments, core.blake3(bytes)),
  )
  let known = then.keyed ? core.decodeDirectory(directory, then.records) : undefined
  try {
    for (const entry of entries) {
      const before = client.layout
      const next = known?.replayed(entry, before)
      before.free()
      client.replay(entry)
      if (next === undefined) continue
      known?.free()
      known = next
    }
    client.rebind(now.commitments)
    const form = decodeCheckpoint(client.checkpoint(core.blake3(newest)).take(), now, client.proofs === 'tags')
    return { ...form, directory: known?.encode() ?? new Uint8Array() }
  } finally {
    known?.free()
    client.free()
    layout.free()
  }
}
