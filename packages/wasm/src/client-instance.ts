// The instance that browsers run: the build without the server half.

import * as glue from '../generated/client.js'
import { clientCore } from './client-core.js'
import { Instance } from './instance.js'

export const instance = new Instance(glue, memory => clientCore(glue, memory))
