// All TypeScript tests, wherever they live. They import the packages by name, that is, as built: run them through
// `npm test`, which builds first.
import { pbkdf2 } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { relative } from 'node:path'
import { promisify } from 'node:util'
import { defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'
import { findOldestPostgres } from './tools/programs.mjs'

const THOROUGH = process.env.KEYHUSH_THOROUGH === '1'

/** What puts something else in the place of a global or a module, or looks at the memory of the whole process. */
const alone = [
  'packages/client/test/{aborted-tasks,filter-in-auto,locks,memory,page,platforms}.test.ts',
  'packages/react-native/test/node.test.ts',
  'packages/client/test/store/file.test.ts',
  'server/test/{anonymous-load,dripping,open-files}.test.ts',
  'packages/pointproofs/test/prover-threads.all.test.ts',
  'tests/costs/{hashes,memory}.test.ts',
  'tests/e2e/dom.test.ts',
]

/** What takes ten seconds or more. It begins first where no run before has measured it. */
const long = [
  ...['durability.all', 'process.all'].map(name => `server/test/${name}`),
  ...[
    'package/package.all',
    'package/release.all',
    'package/reproducible.all',
    'site.all',
    ...['ends-in-time', 'following', 'killed-anywhere', 'mutants.all'].map(name => `world/following/${name}`),
    'world/living/every-tick',
    'world/living/living',
    'world/living/mutants.all',
    'world/state/every-step',
  ].map(name => `tests/${name}`),
  ...['sizes.all', 'testing.all', 'trust.all', 'dev.all'].map(name => `tests/e2e/${name}`),
  ...['demo.all', 'demo-pages.all', 'kills.all', 'reloads-and-private-windows.all', 'sdk', 'store.all', 'tabs.all'].map(
    name => `tests/browsers/${name}`,
  ),
  ...['deviating.all', 'end-to-end.all', 'server-updates.all', 'vectors.all'].map(
    name => `packages/pointproofs/test/${name}`,
  ),
].map(name => `/${name}.test.ts`)

/** What took longest in the last run begins first, so that nothing long begins when everything else is over. */
class LongFirst extends BaseSequencer {
  async sort(files) {
    const { cache, config } = this.ctx
    const durationOf = ({ project, moduleId }) => {
      const last = cache.getFileTestResults(`${project.name}:${relative(config.root, moduleId)}`)?.duration
      return last ?? (long.some(name => moduleId.endsWith(name)) ? Number.POSITIVE_INFINITY : 0)
    }
    return (await super.sort(files)).sort((a, b) => durationOf(b) - durationOf(a) || 0)
  }
}

/** What only the tests of everything run: files that end so. */
const rest = THOROUGH ? [] : ['**/*.all.test.ts']

/** Tests of everything also run on the oldest PostgreSQL that is claimed, where it is to be had. */
const oldestPostgres = THOROUGH ? await findOldestPostgres() : undefined

/** How many times as long as on quiet cores of 2026 the same work takes now; once at least, and four times at most. */
async function slowness() {
  const work = () => promisify(pbkdf2)('', '', 1_000_000, 32, 'sha256')
  const start = performance.now()
  await Promise.all(Array.from({ length: availableParallelism() }, work))
  const milliseconds = performance.now() - start
  return Math.min(4, Math.max(1, milliseconds / 160))
}

// The limits of all tests, so that none names its own: they end what hangs, and say nothing about time.
const times = await slowness()
const limit = (THOROUGH ? 600_000 : 180_000) * times
const wait = (THOROUGH ? 90_000 : 45_000) * times

const common = {
  // As Node loads it for everybody else, once a process, rather than compiled again by Vite.
  server: { deps: { external: [/\/(packages\/\w+|server)\/(dist|generated)\/|\/demo\/build\//] } },
  setupFiles: ['tests/support/setup.ts'],
  testTimeout: limit,
  hookTimeout: 180_000 * times,
  expect: { poll: { timeout: wait } },
  env: { KEYHUSH_WAIT_MILLISECONDS: String(wait) },
}

const onOldestPostgres = {
  test: {
    ...common,
    name: 'on PostgreSQL 15',
    env: { ...common.env, KEYHUSH_POSTGRES_PROGRAMS: oldestPostgres },
    include: ['server/test/{postgres.all,replicas}.test.ts'],
  },
}

export default defineConfig({
  test: {
    globalSetup: 'tests/support/temporary.ts',
    sequence: { sequencer: LongFirst },
    maxWorkers: availableParallelism() + 2, // while one waits for a process or a browser, another has its core
    projects: [
      { test: { ...common, name: 'alone', include: alone, exclude: rest } },
      {
        test: {
          ...common,
          name: 'together', // in a few processes, each with modules loaded, and WebAssembly compiled, once
          isolate: false,
          execArgv: ['--max-semi-space-size=64'], // MB: a seventh of the time went into collecting what is young
          include: ['{packages/*,server,demo}/test/**/*.test.ts', 'tests/**/*.test.ts'],
          exclude: ['**/node_modules/**', ...alone, ...rest],
        },
      },
      ...(oldestPostgres === undefined ? [] : [onOldestPostgres]),
    ],
  },
})
