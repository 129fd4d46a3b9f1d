// How long `vi.waitFor` waits for what has to come: vitest has no setting for it.

import { vi } from 'vitest'

const { waitFor } = vi
const timeout = Number(process.env['KEYHUSH_WAIT_MILLISECONDS'])
vi.waitFor = (check, options) => waitFor(check, typeof options === 'object' ? { ...options, timeout } : timeout)
