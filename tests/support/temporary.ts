// One temporary folder for a whole test run. All temporary files of tests, servers and browsers are in it and removed with it, also
// those of killed processes. A test that leaves files is reported.

import { rmSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Vitest's global setup, which comes before it starts its workers. Returns the teardown. */
export default async function setup(): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'keyhush-run-'))
  process.env['TMPDIR'] = folder
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove) // an interrupted run is not torn down
  return async () => {
    process.off('exit', remove)
    const left = (await readdir(folder)).filter(name => name.startsWith('keyhush-'))
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    if (left.length > 0) throw new Error(`tests have left in the temporary folder: ${left.join(', ')}`)
  }
}
