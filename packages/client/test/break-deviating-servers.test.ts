// A server that deviates at will, in every mode (support/deviating.ts).

import { deviate } from './support/deviating.js'

deviate(['instant', 'full', 'auto', 'auto full', 'single tolerated'])
