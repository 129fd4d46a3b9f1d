// A server that deviates at will, in every mode (support/deviating.ts).

import { THOROUGH } from '../../../tests/support/thorough.js'
import { deviate } from './support/deviating.js'

deviate(['instant', 'full', 'auto', 'auto full', 'single tolerated'], THOROUGH ? 100 : 2)
