// The timeout of `vi.waitFor`, for which vitest has no setting.

import { vi } from 'vitest'

const { waitFor } = vi
const timeout = Number(process.env['KEYHUSH_WAIT_MILLISECONDS'])
vi.waitFor = (check, options) => waitFor(check, typeof options === 'object' ? { ...options, timeout } : timeout)
