// Mutants: each takes one rule out of the client, the server or the publisher, and a life finds that. A mutant names the rule, the file
// with a life that is written by hand and finds it, or seeds of drawn lives, and what it shows.

import type { Plugin } from 'vite'
import type { Bug, Compiler } from '../living/mutants.js'
import type { live as liveIn } from './life.js'
import type { runAll } from './plays.js'
import type { grounds as groundsIn, leaveGrounds } from './stage.js'

interface Mutant extends Bug {
  /** the rule that is missing, by its name in the design: A1, B4, P1, C2 … */
  readonly rule: string
  /** a life that is written by hand, which passes without the bug … */
  readonly play?: { readonly file: string; readonly test: RegExp }
  /** … or seeds of lives, which break no rule without it */
  readonly seeds?: readonly number[]
  /** what it shows */
  readonly shows: RegExp
}

export const MUTANTS: readonly Mutant[] = [
  {
    rule: 'F7',
    name: 'a filter that is behind goes on',
    file: 'packages/client/src/filter/filter.ts',
    find: 'return isLate || ',
    replace: 'return ',
    play: { file: 'excludes-no-listed-key.test.ts', test: /^a minute after/ },
    shows: /filter-behind/,
  },
  {
    rule: 'F2',
    name: 'old marks are taken for those of a newer epoch',
    file: 'packages/client/src/filter/filter.ts',
    find: '      this.#hold(moved)\n',
    replace: '      this.#hold(this.#held.signedAs(moved.at))\n',
    play: { file: 'excludes-no-listed-key.test.ts', test: /seed 1$/ },
    shows: /listed, and excluded/,
  },
  {
    rule: 'A1',
    name: 'the server that is furthest behind decides',
    file: 'packages/client/src/servers/target.ts',
    find: 'claims.flatMap(([first]) => first ?? []).sort(newestFirst)',
    replace: 'claims.flatMap(([first]) => first ?? []).sort((a, b) => newestFirst(b, a))',
    play: { file: 'sync-is-newest.test.ts', test: /^mode local with a key: one/ },
    shows: /expected 1 to be 4|sync-newest/,
  },
  {
    rule: 'A2',
    name: 'a path with an epoch more leads nowhere',
    file: 'packages/client/src/servers/path.ts',
    find: ' && epoch <= target.manifest.epoch',
    replace: '',
    play: { file: 'passes-generations.test.ts', test: /^mode local: updates lead on/ },
    shows: /outdated/,
  },
  {
    rule: 'A3',
    name: 'a path is not cut at a generation',
    file: 'packages/client/src/servers/path.ts',
    find: 'if (end >= 0) return { path: path.slice(0, end)',
    replace: 'if (end >= 0) return { path',
    play: { file: 'passes-generations.test.ts', test: /^full, 2 servers: without push/ },
    shows: /expected|fails/,
  },
  {
    rule: 'A4',
    name: 'queries need no agreement where there is a key',
    file: 'packages/client/src/state/newest.ts',
    find: 'signing !== undefined && scheme !== undefined && asksNobody(scheme) ? 1 : atLeast',
    replace: 'signing !== undefined ? 1 : atLeast',
    play: { file: 'sync-is-newest.test.ts', test: /^mode full: sync\(\) names/ },
    shows: /was to fail/,
  },
  {
    rule: 'A5',
    name: 'sync() says nothing of who holds it back',
    file: 'packages/client/src/session/stateless.ts',
    find: '    this.#lag.assertNone()\n',
    replace: '',
    play: { file: 'sync-is-newest.test.ts', test: /^mode instant: sync\(\) names/ },
    shows: /was to fail/,
  },
  {
    rule: 'A5',
    name: 'no event says who holds a map back',
    file: 'packages/client/src/servers/target.ts',
    find: "this.#announce({ type: 'behind', epoch, servers })",
    replace: '{}',
    play: { file: 'sync-is-newest.test.ts', test: /^mode instant with push/ },
    shows: /expected undefined/,
  },
  {
    rule: 'A6',
    name: 'the publisher does not sign before it sends',
    file: 'server/src/publisher/publish.ts',
    find: "'check', 'sign', 'prove', 'judge'",
    replace: "'check', 'prove', 'judge'",
    play: { file: 'passes-generations.test.ts', test: /^a publisher that is killed/ },
    shows: /signed-answered/,
  },
  {
    rule: 'A6',
    name: 'a server that is behind is sent more before it is signed',
    file: 'server/src/publisher/publish.ts',
    find: '      await ofAll(behind, server => this.#signAt(server, before)) // the tip has a step of its own\n',
    replace: '',
    play: { file: 'publishes-again.test.ts', test: /^a server that was put back/ },
    shows: /signed-answered|expected/,
  },
  {
    rule: 'A8',
    name: 'servers tell nobody that an epoch is signed',
    file: 'server/src/database/signatures.ts',
    find: '    if (signed === this.#answered.newest) this.tell()\n',
    replace: '',
    play: { file: 'hears-liars.test.ts', test: /^mode instant/ },
    shows: /expected \d to be \d/,
  },
  {
    rule: 'A, rotation',
    name: 'only the first of two keys signs',
    file: 'server/src/publisher/publish.ts',
    find: 'publicKey, secretKey } of this.#keys) {\n      if (isSigned(known',
    replace: 'publicKey, secretKey } of this.#keys.slice(0, 1)) {\n      if (isSigned(known',
    play: { file: 'passes-generations.test.ts', test: /^mode local: a run with two keys/ },
    shows: /SignatureError|expected/,
  },
  {
    rule: 'B1',
    name: 'attempts at a lookup last as long as they like',
    file: 'packages/client/src/servers/wire.ts',
    find: 'let left = WIRE_MS',
    replace: 'let left = 10 * WIRE_MS',
    play: { file: 'ends-in-time.test.ts', test: /^mode instant: how long a caller waits/ },
    shows: /to deeply equal|expected \d+ to be less/,
  },
  {
    rule: 'B2',
    name: 'time asleep counts',
    file: 'packages/client/src/platform/clock.ts',
    find: 'asleep += at - seen - STEP_MS',
    replace: 'asleep += 0',
    play: { file: 'ends-in-time.test.ts', test: /^instant: a frozen page/ },
    shows: /expected \d+ to be/,
  },
  {
    rule: 'B3',
    name: 'any byte is progress',
    file: 'packages/client/src/servers/transport.ts',
    find: 'if (isBlob) meter.earnedMs += slowestMs(chunk.length)',
    replace: 'meter.earnedMs += 2_000',
    play: { file: 'ends-in-time.test.ts', test: /^local, no key, \{"is":"drips","everyMs":1500/ },
    shows: /ended-in-time/,
  },
  {
    rule: 'B4',
    name: 'who was late is forgotten',
    file: 'packages/client/src/servers/standing.ts',
    find: "if (how === 'late') this",
    replace: "if (how !== 'late') this",
    play: { file: 'beside-a-silent-server.test.ts', test: /^instant, at least 2, one server silent: lookups/ },
    shows: /answered-soon|expected \d+ to be less/,
  },
  {
    rule: 'B5',
    name: 'replies that are not needed are waited for',
    file: 'packages/client/src/servers/ask.ts',
    find: 'return isWaitedFor ? Math.max(SLOW_MS - taken, taken) : taken',
    replace: 'return 60_000',
    play: { file: 'beside-a-silent-server.test.ts', test: /^instant, at least 2, one server silent: an epoch/ },
    shows: /expected \d+ to be/,
  },
  {
    rule: 'B5',
    name: 'a busy server is asked three times',
    file: 'packages/client/src/servers/ask.ts',
    find: 'error.retryAfterMs === undefined ? attempt++ === ATTEMPTS : clock.now() + pause > until',
    replace: 'attempt++ === ATTEMPTS',
    play: { file: 'waits-for-busy.test.ts', test: /^instant/ },
    shows: /RateLimited|NetworkError|answered/,
  },
  {
    rule: 'B6',
    name: 'no other way is tried beside a late one',
    file: 'packages/client/src/lookup/pending.ts',
    find: 'new Pace(link, bytesOf(requests))',
    replace: 'new Pace(link, 1e9)',
    play: { file: 'beside-a-silent-server.test.ts', test: /^single, at least 2, one server silent: lookups/ },
    shows: /TimeoutError|expected \d+ to be less/,
  },
  {
    rule: 'B7',
    name: 'all fences are waited for',
    file: 'packages/client/src/lookup/admission.ts',
    find: '{ enough: 1, once: true }',
    replace: '{ enough: links.length, once: true }',
    play: { file: 'beside-a-silent-server.test.ts', test: /^single, at least 2, one server silent: a stored/ },
    shows: /expected \d+ to be less|TimeoutError|NetworkError|answered/,
  },
  {
    rule: 'B8',
    name: 'an idle lane takes no piece over',
    file: 'packages/client/src/scheme/download.ts',
    find: 'if (left <= 0 && !link',
    replace: 'if (left < -1e9 && !link',
    play: { file: 'downloads-from-another.test.ts', test: /as the download begins/ },
    shows: /expected \d+ to be less|answered|Timeout/,
  },
  {
    rule: 'B9',
    name: 'who announces is asked in its turn',
    file: 'packages/client/src/session/events.ts',
    find: 'await askOne([this.#link], {}, this.#signal, ask)',
    replace: 'await turns.take(() => askOne([this.#link], {}, this.#signal, ask))',
    play: { file: 'hears-liars.test.ts', test: /^mode local/ },
    shows: /expected \d to be \d/,
  },
  {
    rule: 'B10',
    name: 'close() waits for the wire',
    file: 'packages/client/src/map.ts',
    find: 'await inTime(clock, timeoutMs, left)',
    replace: 'await left',
    play: { file: 'ends-in-time.test.ts', test: /^mode instant: close/ },
    shows: /has not ended/,
  },
  {
    rule: 'P1',
    name: 'a generation is nothing new',
    file: 'packages/client/src/state/newest.ts',
    find: "if (next === 'generation' && stays) throw new OutdatedError('generation')",
    replace: "if (next === 'generation' && stays) return { steps: [], isAll: true }",
    play: { file: 'passes-generations.test.ts', test: /^local, 2 servers: a batch that makes/ },
    shows: /expected \d to be \d/,
  },
  {
    rule: 'P2',
    name: 'a map that has all records waits for all servers',
    file: 'packages/client/src/state/newest.ts',
    find: 'asksNobody(scheme) ? 1 : atLeast',
    replace: 'asksNobody(scheme) ? atLeast : atLeast',
    play: { file: 'sync-is-newest.test.ts', test: /^mode local with a key: one/ },
    shows: /VersionError|expected/,
  },
  {
    rule: 'C1',
    name: 'a late server is asked first again',
    file: 'packages/client/src/lookup/pending.ts',
    find: 'standing.order(ways.map(([link]) => link!))',
    replace: 'ways.map(([link]) => link!)',
    play: { file: 'beside-a-silent-server.test.ts', test: /^single, at least 2, one server silent: lookups/ },
    shows: /answered-soon|expected \d+ to be less/,
  },
  {
    rule: 'C2',
    name: 'every server has to reply',
    file: 'packages/client/src/servers/target.ts',
    find: 'askAll(asked, { enough, patient }',
    replace: 'askAll(asked, { enough: asked.length, patient }',
    play: { file: 'beside-a-silent-server.test.ts', test: /^instant, at least 2, one server silent: an epoch/ },
    shows: /expected/,
  },
  {
    rule: 'C3',
    name: 'a dripping reply has all the time it takes',
    file: 'packages/client/src/servers/transport.ts',
    find: 'Math.min(until - start, SILENCE_MS + slowestMs(reply.length + (body?.length ?? 0)))',
    replace: 'Number.POSITIVE_INFINITY',
    play: { file: 'ends-in-time.test.ts', test: /^mode instant, no timeoutMs/ },
    shows: /has not ended/,
  },
  {
    rule: 'C4',
    name: 'a lane whose piece another has taken goes on',
    file: 'packages/client/src/scheme/download.ts',
    find: '      resting.add(link)\n',
    replace: '',
    play: {
      file: 'downloads-from-another.test.ts',
      test: /as the download begins/,
    },
    shows: /TimeoutError|expected \d+ to be less/,
  },
  {
    rule: 'C5',
    name: 'a chain is hashed before it is looked at',
    file: 'packages/client/src/servers/path.ts',
    find: '    if (!canLead(last, wanted, target)) return undefined // before any of it is hashed\n',
    replace: '',
    play: { file: 'costs.test.ts', test: /^mode local/ },
    shows: /expected \d+ to be less/,
  },
  {
    rule: 'C6',
    name: 'a stream that announces what is not there is heard on',
    file: 'packages/client/src/session/events.ts',
    find: 'if (news === undefined) return false',
    replace: 'if (news === undefined) return true',
    play: { file: 'hears-liars.test.ts', test: /not listened to/ },
    shows: /to deeply equal/,
  },
  {
    rule: 'W2',
    name: 'a watch waits for all servers',
    file: 'packages/client/src/watching/following.ts',
    find: '{ patient, enough: 1, once: true }',
    replace: '{ patient, enough: left.length, once: true }',
    play: { file: 'beside-a-silent-server.test.ts', test: /^local, at least 2, one server silent: a watched/ },
    shows: /expected \w+ to be \d/,
  },
  {
    rule: 'W11',
    name: 'a change of a watched key is not told',
    file: 'packages/client/src/watching/watched.ts',
    find: 'if (contradicts || !isSamePlace(place, this.#seen.place)) this.change',
    replace: 'if (contradicts) this.change',
    seeds: [51],
    shows: /watch-told: .* made were/,
  },
]

const THREAD = new URL('../../../server/dist/workers/thread.js', import.meta.url).href

/** Lives that are written by hand get another Vitest. A server's threads, which Node loads, are those that were built. */
export const recording: Plugin = {
  name: 'plays',
  enforce: 'pre',
  transform: (code, id) => {
    if (/following\/[\w-]+\.test\.ts$/.test(id)) return code.replace("from 'vitest'", "from './plays.js'")
    if (!id.endsWith('server/src/workers/workers.ts')) return null
    return code.replace("new URL('./thread.js', import.meta.url)", `new URL(${JSON.stringify(THREAD)})`)
  },
}

/** What the lives of a mutant show, on the sources with its bug, or as they are; undefined: nothing. */
export async function hunted(compiler: Compiler, mutant: Mutant, bug: Bug | undefined): Promise<string | undefined> {
  const { play, seeds = [] } = mutant
  const folder = '/tests/world/following/'
  if (play !== undefined) {
    type Entry = { readonly runAll: typeof runAll; readonly load: (path: string) => Promise<unknown> }
    return await compiler.withBug<Entry, string | undefined>(bug, `${folder}entry.ts`, async module => {
      await module.load(play.file)
      return await module.runAll(play.test)
    })
  }
  type Entry = { live: typeof liveIn; grounds: typeof groundsIn; leaveGrounds: typeof leaveGrounds }
  return await compiler.withBug<Entry, string | undefined>(bug, `${folder}entry.ts`, async module => {
    try {
      for (const seed of seeds) {
        const { violations } = await module.live(seed, await module.grounds())
        if (violations.length > 0) return `seed ${seed}: ${violations[0]!.rule}: ${violations[0]!.what}`
      }
      return undefined
    } finally {
      await module.leaveGrounds()
    }
  })
}
