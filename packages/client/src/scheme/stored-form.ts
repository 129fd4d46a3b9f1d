// Stored forms of what may be tens of megabytes: written at once, so that they are of one moment, and hashed in slices, so
// that the page gets its thread back in between.

import type { StoredFormHandle } from '@pirouette/wasm/client'
import { WORK_BYTES } from '../base/constants.js'
import { inCore, release } from '../platform/core.js'
import type { SchemeContext } from './scheme.js'

export async function storedForm(
  { core, environment }: Pick<SchemeContext, 'core' | 'environment'>,
  write: () => StoredFormHandle,
): Promise<Uint8Array> {
  const form = inCore(core, write)
  try {
    while (inCore(core, () => form.hash(WORK_BYTES))) await environment.pause()
    return inCore(core, () => form.take())
  } finally {
    release(core, form)
  }
}
