// The instance that browsers run for maps whose lookups one server may answer: the build without the server half, and with
// what such lookups need. Loaded when the first of them is opened.

import * as glue from '../generated/single.js'
import { Instance } from './instance.js'
import { singleCore } from './single-core.js'

export const instance = new Instance(glue, memory => singleCore(glue, memory))
