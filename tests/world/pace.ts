// Servers of a world give the thread back when the world says so. By the machine's clock, a seed would be another schedule each time.

import { slice } from '../../server/dist/base/pace.js'

slice.milliseconds = Number.POSITIVE_INFINITY
