// Bugs to be found: each changes one place of the client or the server into a known mistake.

import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { createServer, type Plugin, type ViteDevServer } from 'vite'
import type { hunt } from './hunt.js'

export interface Plant {
  readonly name: string
  /** from the root of the repository */
  readonly file: string
  /** what stands there, once */
  readonly find: string
  readonly replace: string
  /** what the world is to say of it */
  readonly shows: RegExp
}

export const PLANTS: readonly Plant[] = [
  {
    name: 'a half-made hint takes a delta twice',
    file: 'packages/client/src/recovery.ts',
    find: 'this.builder.update(list, before, after, manifest.commitments, manifest.contentHashes),',
    replace: `{
            this.builder.update(list, before, after, manifest.commitments, manifest.contentHashes)
            if (before.records === after.records)
              this.builder.update(list, before, after, manifest.commitments, manifest.contentHashes)
          },`,
    shows: /should be|StorageError|parities are wrong|condemned/,
  },
  {
    name: 'the directory stays as it was',
    file: 'packages/client/src/advance.ts',
    find: 'hint.moveTo(step, directory)',
    replace: 'hint.moveTo(step, undefined)',
    shows: /should be|condemned|different directories|two directories/,
  },
  {
    name: 'a key that was moved meanwhile is answered from its index',
    file: 'packages/client/src/moved.ts',
    find: '  return record\n}',
    replace: '  return undefined\n}',
    shows: /should be/,
  },
  {
    name: 'the pending batch is not extended in the store',
    file: 'packages/client/src/store/rules.ts',
    find: '    journalBytes: whole.journalBytes + entry.length,\n    pending,',
    replace: '    journalBytes: whole.journalBytes + entry.length,\n    pending: whole.pending,',
    shows: /discarded: unreadable|not stored|StorageError/,
  },
  {
    name: 'an update does not count as a version',
    file: 'packages/client/src/store/rules.ts',
    find: '    record: { ...whole.record, manifest },\n    version: version + 1,',
    replace: '    record: { ...whole.record, manifest },\n    version,',
    shows: /names version|StorageError|discarded: unreadable/,
  },
  {
    name: 'new permutations come from the same random bytes each time',
    file: 'packages/client/src/advance.ts',
    find: 'client.update(list, after, manifest.commitments, random(32))',
    replace: 'client.update(list, after, manifest.commitments, new Uint8Array(32))',
    shows: /not drawn, or used before/,
  },
  {
    name: 'a pending batch is forgotten when the state is opened',
    file: 'packages/client/src/recovery.ts',
    find: 'if (pending !== undefined) readBack(core, () => client!.resume(pending))',
    replace: '',
    shows: /StorageError|the first was shown|two different vectors|condemned/,
  },
  {
    name: 'a tab that has caught up stays at the epoch it was at',
    file: 'packages/client/src/advance.ts',
    find: '    hint.moveTo(at, directory)',
    replace: '    hint.moveTo({ ...at, manifest: hint.manifest }, directory)',
    shows: /records, and the map says|should be|is at|StorageError|fails with/,
  },
  {
    name: 'the client goes where only one of the servers is',
    file: 'packages/client/src/sync.ts',
    find: 'for (let i = 0; i < Math.min(a.length, b.length); i++) {',
    replace: 'for (let i = 0; i < Math.max(a.length, b.length); i++) {\n    a[i] ??= b[i]!\n    b[i] ??= a[i]!',
    shows: /not both servers have|fails with/,
  },
  {
    name: 'the epoch before the newest is answered from the newest',
    file: 'server/src/living/database.ts',
    find: "this.#newest.isCores = 'previous'",
    replace: '',
    shows: /condemned|TamperedError|should be/,
  },
  {
    name: 'the fence lets a version pass that it is beyond',
    file: 'server/src/living/fence.ts',
    find: 'if (kept === undefined || request.version < kept.version) return false',
    replace: 'if (kept === undefined) return false\n  if (request.version < kept.version) return true',
    shows: /the first was shown|two different vectors|a column twice|not stored/,
  },
  {
    name: 'the fence does not hear of the claim behind a query',
    file: 'server/src/routes/answer.ts',
    find: "await fence.judge({ kind: 'confirm', ...claim })",
    replace: "'granted'",
    shows: /the first was shown|two different vectors|a column twice|not stored/,
  },
  {
    name: 'a claim is named anew when its batch is extended',
    file: 'packages/client/src/keeper.ts',
    find: 'const version = hint.version + 2 ** 32 - manifest.epoch',
    replace: 'const { version } = hint',
    shows: /another claim than its own \(e\)/,
  },
]

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Runs schedules on the sources with a bug in them. Returns the seed and what was wrong; undefined: nothing was. */
export async function huntDown(plant: Plant, schedules: number): Promise<ReturnType<typeof hunt>> {
  const compiler = await compilerOf(planting(plant))
  try {
    const module = (await compiler.ssrLoadModule('/tests/living/hunt.ts')) as { hunt: typeof hunt }
    return await module.hunt(schedules)
  } finally {
    await compiler.close()
  }
}

/** Loads the client and the server from their sources, as the tests do not. */
function compilerOf(plugin: Plugin): Promise<ViteDevServer> {
  const source = (path: string) => `${root}${path}`
  return createServer({
    root,
    configFile: false,
    appType: 'custom',
    logLevel: 'error',
    server: { middlewareMode: true, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true },
    resolve: {
      alias: [
        { find: '@pirouette/client/environment', replacement: source('packages/client/src/injection.ts') },
        { find: /^@pirouette\/client$/, replacement: source('packages/client/src/index.ts') },
        { find: '@pirouette/server', replacement: source('server/src/index.ts') },
      ],
    },
    plugins: [plugin],
  })
}

function planting({ name, file, find, replace }: Plant): Plugin {
  return {
    name: 'a planted bug',
    enforce: 'pre',
    async load(id) {
      if (id !== root + file) return null
      const parts = (await readFile(id, 'utf8')).split(find)
      if (parts.length !== 2) throw new Error(`${name}: its place in ${file} is not there, or not once`)
      return parts.join(replace)
    },
  }
}
