// All TypeScript tests, wherever they live. They import the packages by name, that is, as built: run them through
// `npm test`, which builds first.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['{packages/*,server,demo}/test/**/*.test.ts', 'tests/**/*.test.ts'],
    globalSetup: 'tests/support/temporary.ts',
    maxWorkers: availableParallelism(), // vitest would leave a core to its own process, which has nothing to do
    testTimeout: 30_000,
    hookTimeout: 120_000,
  },
})
