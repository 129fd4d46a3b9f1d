// Loads the WebAssembly module, which multiplies by secrets. JavaScript computes nothing with them.

import { readFile } from 'node:fs/promises'
import * as glue from '../../generated/evaluation.js'

export type Secret = glue.SecretHandle
export type Secrets = Pick<typeof glue, 'SecretHandle' | 'newSecret' | 'deal' | 'recover'>

let loading: Promise<Secrets> | undefined

/** Instantiates the module, or returns the running one. */
export function loadSecrets(): Promise<Secrets> {
  loading ??= readFile(new URL('../../generated/evaluation_bg.wasm', import.meta.url)).then(bytes => {
    glue.initSync({ module: new WebAssembly.Module(bytes) })
    return glue
  })
  return loading
}
