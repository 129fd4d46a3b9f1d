// This software's name and version, as `/v1/info` and `--version` give it.

import { readFileSync } from 'node:fs'

const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
const { version }: { version: string } = JSON.parse(manifest)

export const VERSION = version
export const SOFTWARE = `keyhush/${version}`
