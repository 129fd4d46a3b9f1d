// All TypeScript tests, wherever they live. They import the packages by name, that is, as built: run them through
// `npm test`, which builds first.
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** What puts something else in the place of a global or a module, or looks at the memory of the whole process. */
const alone = [
  'packages/client/test/{locks,memory,page,starting}.test.ts',
  'packages/client/test/store/file.test.ts',
  'server/test/break-{anonymous-load,descriptors}.test.ts',
  'tests/costs/{hashes,memory}.test.ts',
]

const common = {
  // As Node loads it for everybody else, once a process, rather than compiled again by Vite.
  server: { deps: { external: [/\/(packages\/\w+|server)\/(dist|generated)\/|\/demo\/build\//] } },
  testTimeout: 30_000,
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    globalSetup: 'tests/support/temporary.ts',
    maxWorkers: availableParallelism() + 1, // while one waits for a process or a browser, another has its core
    projects: [
      { test: { ...common, name: 'alone', include: alone } },
      {
        test: {
          ...common,
          name: 'together', // in a few processes, each with modules loaded, and WebAssembly compiled, once
          isolate: false,
          include: ['{packages/*,server,demo}/test/**/*.test.ts', 'tests/**/*.test.ts'],
          exclude: ['**/node_modules/**', ...alone],
        },
      },
    ],
  },
})
