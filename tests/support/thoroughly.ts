import { type TestOptions, test } from 'vitest'
import { THOROUGH } from './thorough.js'

type Run = () => unknown

/** A test that only `npm run test:all` runs. */
export const thoroughly: (name: string, ...rest: [run: Run] | [options: TestOptions, run: Run]) => void = THOROUGH
  ? (test as typeof thoroughly)
  : () => {}
