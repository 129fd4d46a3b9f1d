// Mutants: each puts a known mistake into one place of the client's or the server's sources.

import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { createServer, createServerModuleRunner, type Plugin, type ViteDevServer } from 'vite'
import type { hunt } from './hunt.js'

/** A bug, in one place. */
export interface Bug {
  readonly name: string
  /** from the root of the repository */
  readonly file: string
  /** what stands there, once */
  readonly find: string
  readonly replace: string
}

export interface Mutant extends Bug {
  /** a schedule that finds it */
  readonly seed: number
  /** of its schedules, where it is not `full` */
  readonly mode?: 'single'
  /** of its schedules, where tags are in rows */
  readonly rows?: true
  /** the world's finding */
  readonly shows: RegExp
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a half-made hint takes a delta twice',
    seed: 1,
    file: 'packages/client/src/scheme/tapir/preparation.ts',
    find: '() => this.#builder.update(list, before, after, commitments, contentHashes))',
    replace: `() => {
      this.#builder.update(list, before, after, commitments, contentHashes)
      if (before.records === after.records)
        this.#builder.update(list, before, after, commitments, contentHashes)
    })`,
    shows: /should be|StorageError|parities are wrong|condemned/,
  },
  {
    name: 'a pending lookup for one server is made anew by the next tab, for the same record',
    seed: 17,
    mode: 'single',
    file: 'packages/client/src/scheme/core-state.ts',
    find: 'this.readBack(handle => handle.resume(pending))',
    replace: `this.readBack(handle => handle.resume(pending))
    const view = new DataView(pending.buffer, pending.byteOffset)
    const indices = Uint32Array.from({ length: this.pending }, (_, i) => view.getUint32(52 + 12 * i, true))
    this.withdraw()
    this.query(indices)`,
    shows:
      /is sent what was not stored|a second lookup at one version|another claim than its own|the store refuses|condemned|outdated: generation/,
  },
  {
    name: 'the directory stays as it was',
    seed: 1,
    file: 'packages/client/src/state/advancing.ts',
    find: 'hint.moveTo(step, directory)',
    replace: 'hint.moveTo(step, undefined)',
    shows:
      /should be|condemned|different directories|two directories|contradicts itself|discarded: unreadable|keeps \d+ directories/,
  },
  {
    name: 'a key that was moved meanwhile is answered from its index',
    seed: 1,
    file: 'packages/client/src/lookup/lookup.ts',
    find: 'movedBy(lists, recordBytes, prints)',
    replace: 'movedBy([], recordBytes, prints)',
    shows: /should be/,
  },
  {
    name: 'the pending lookup is not extended in the store',
    seed: 1,
    file: 'packages/client/src/store/rules.ts',
    find: '    journalBytes: whole.journalBytes + entry.length,\n    pending,',
    replace: '    journalBytes: whole.journalBytes + entry.length,\n    pending: whole.pending,',
    shows: /discarded: unreadable|not stored|StorageError/,
  },
  {
    name: 'an update does not count as a version',
    seed: 2,
    file: 'packages/client/src/store/rules.ts',
    find: '    record: movedTo(whole.record, epoch),\n    version: version + 1,',
    replace: '    record: movedTo(whole.record, epoch),\n    version,',
    shows: /names version|StorageError|discarded: unreadable/,
  },
  {
    name: 'new permutations come from the same random bytes each time',
    seed: 1,
    file: 'packages/client/src/scheme/hint-state.ts',
    find: 'client.update(list, after, commitments, entropy)',
    replace: 'client.update(list, after, commitments, new Uint8Array(32))',
    shows: /not drawn, or used before/,
  },
  {
    name: 'a pending lookup is forgotten when the state is opened',
    seed: 6,
    file: 'packages/client/src/state/restoring.ts',
    find: '      state.resume(pending)\n',
    replace: '',
    shows: /StorageError|the first was shown|two different vectors|condemned/,
  },
  {
    name: 'a tab that has caught up stays at the epoch it was at',
    seed: 1,
    file: 'packages/client/src/state/applying.ts',
    find: '      hint.moveTo(at, directory)',
    replace: '      hint.moveTo({ ...at, manifest: hint.manifest }, directory)',
    shows: /outdated: manifest|discarded: manifest|records, and the map says|should be|is at|StorageError|fails with/,
  },
  {
    name: 'the client goes where only one of the servers is',
    seed: 1,
    file: 'packages/client/src/servers/target.ts',
    find: 'this.#shown.filter(shown => this.#holders(shown).length >= needed)',
    replace: 'this.#shown.filter(shown => this.#holders(shown).length >= 1)',
    shows: /not both servers have|fails with/,
  },
  {
    name: 'the epoch before the newest is answered from the newest',
    seed: 1,
    file: 'server/src/database/answered.ts',
    find: "begun(): void {\n    this.newest.isCores = 'previous'",
    replace: 'begun(): void {',
    shows: /condemned|TamperedError|should be|internal/,
  },
  {
    name: 'the fence lets a version pass that it is beyond',
    seed: 29,
    file: 'server/src/database/stored-fence.ts',
    find: 'if (kept === undefined || request.version < kept.version) return false',
    replace: 'if (kept === undefined) return false\n  if (request.version < kept.version) return true',
    shows: /the first was shown|two different vectors|a column twice|not stored/,
  },
  {
    name: 'the fence does not hear of the claim behind a query',
    seed: 37,
    file: 'server/src/http/routes/answer.ts',
    find: 'judge(claim).then(verdict =>',
    replace: "Promise.resolve('granted' as const).then(verdict =>",
    shows: /the first was shown|two different vectors|a column twice|not stored/,
  },
  {
    name: 'a claim is named anew when its lookup is extended',
    seed: 1,
    file: 'packages/client/src/lookup/admission.ts',
    find: 'version: claimVersion(version, manifest),',
    replace: 'version,',
    shows: /another claim than its own \(e\)/,
  },
  {
    name: 'the rows of a lookup are read once it is stored',
    seed: 1,
    mode: 'single',
    rows: true,
    file: 'packages/client/src/lookup/pending.ts',
    find: 'const provided = provide(machine, hint, own)',
    replace: 'await intend(machine, hint, own)\n  const provided = provide(machine, hint, own)',
    shows: /rows were read for it/,
  },
  {
    name: 'of several queries of a lookup for one stripe, the row is read once',
    seed: 1,
    mode: 'single',
    rows: true,
    file: 'packages/client/src/scheme/single/state.ts',
    find: '    for (const name of wanted) {\n      const row = await rows.read(name)',
    replace: `    const read = new Map<string, Uint8Array>()
    for (const name of wanted) {
      const row = read.get(name) ?? (await rows.read(name))
      read.set(name, row)`,
    shows: /rows were read for it/,
  },
  {
    name: 'a row that was made anew is taken over, and not kept',
    seed: 22,
    mode: 'single',
    rows: true,
    file: 'packages/client/src/scheme/single/state.ts',
    find: '      await rows.put(toHex(name), bytes)\n',
    replace: '',
    shows: /StorageError|a stored row is lost|discarded: unreadable/,
  },
  {
    name: 'a checkpoint names no rows',
    seed: 3,
    mode: 'single',
    rows: true,
    file: 'packages/client/src/state/checkpoints.ts',
    find: '{ checkpoint, manifest, directory }, state.rows)',
    replace: '{ checkpoint, manifest, directory })',
    shows: /StorageError|a stored row is lost|discarded: unreadable/,
  },
]

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Loads client and server from their sources, with a bug in one of them. (Tests load what was built.) */
export class Compiler {
  private constructor(
    private readonly vite: ViteDevServer,
    private readonly chosen: { mutant: Bug | undefined },
  ) {}

  static async start(...plugins: readonly Plugin[]): Promise<Compiler> {
    const chosen: { mutant: Bug | undefined } = { mutant: undefined }
    const source = (path: string) => `${root}${path}`
    const vite = await createServer({
      root,
      configFile: false,
      appType: 'custom',
      logLevel: 'error',
      server: { middlewareMode: true, ws: false, watch: null },
      optimizeDeps: { noDiscovery: true },
      resolve: {
        alias: [
          { find: '@keyhush/client/environment', replacement: source('packages/client/src/testing.ts') },
          { find: /^@keyhush\/client$/, replacement: source('packages/client/src/index.ts') },
          { find: '@keyhush/server', replacement: source('server/src/index.ts') },
          { find: /^.*\/server\/dist\/(.*)\.js$/, replacement: source('server/src/$1.ts') },
        ],
      },
      plugins: [
        ...plugins,
        {
          name: 'a mutant',
          enforce: 'pre',
          load: async id => (chosen.mutant && id === root + chosen.mutant.file ? await mutated(chosen.mutant) : null),
        },
      ],
    })
    return new Compiler(vite, chosen)
  }

  close(): Promise<void> {
    return this.vite.close()
  }

  /** Runs schedules on the sources with a bug in them. Returns the seed and what was wrong; undefined: nothing was. */
  async huntDown(mutant: Mutant, schedules: number): Promise<ReturnType<typeof hunt>> {
    const { seed, mode, rows } = mutant
    const seeds = [seed, ...Array.from({ length: schedules }, (_, i) => i + 1)]
    return await this.withBug<{ hunt: typeof hunt }, ReturnType<typeof hunt>>(
      mutant,
      '/tests/world/living/hunt.ts',
      module => module.hunt(seeds, mode, rows),
    )
  }

  /** Loads a module, and all that it imports, on the sources with a bug in them; undefined: as they are. */
  async withBug<M, T>(bug: Bug | undefined, path: string, work: (module: M) => Promise<T> | T): Promise<Awaited<T>> {
    this.chosen.mutant = bug
    this.forget(bug)
    // Loads all modules anew; only the changed one is compiled again.
    const runner = createServerModuleRunner(this.vite.environments.ssr, { hmr: false })
    try {
      return await work(await runner.import<M>(path))
    } finally {
      await runner.close()
      this.chosen.mutant = undefined
      this.forget(bug)
    }
  }

  private forget(bug: Bug | undefined): void {
    if (bug === undefined) return
    const { moduleGraph } = this.vite.environments.ssr
    for (const module of moduleGraph.getModulesByFile(root + bug.file) ?? []) moduleGraph.invalidateModule(module)
  }
}

/** The source with the bug in it. Throws if its place is not there any more. */
export async function mutated({ name, file, find, replace }: Bug): Promise<string> {
  const parts = (await readFile(root + file, 'utf8')).split(find)
  if (parts.length !== 2) throw new Error(`${name}: its place in ${file} is not there, or not once`)
  return parts.join(replace)
}
