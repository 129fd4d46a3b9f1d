// All TypeScript tests, wherever they live. They import the packages by name, that is, as built: run them through
// `npm test`, which builds first.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['{packages/*,server,demo}/test/**/*.test.ts', 'tests/**/*.test.ts'],
    globalSetup: 'tests/support/temporary.ts',
    maxWorkers: availableParallelism() + 1, // while one waits for a process or a browser, another has its core
    testTimeout: 30_000,
    hookTimeout: 120_000,
  },
})
