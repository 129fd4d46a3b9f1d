// Which tests run when. `npm test` takes samples of some. `npm run test:all` runs everything: THOROUGH is true, and files called
// `*.all.test.ts` run (vitest.config.mjs).

export const THOROUGH = process.env['KEYHUSH_THOROUGH'] === '1'

/** All cases; in `npm test` one of `every`, which differ from row to row of a table. */
export function sampled<T>(cases: readonly T[], every = 3): readonly T[] {
  return THOROUGH ? cases : cases.filter((_, i) => (i + Math.floor(i / every)) % every === 0)
}
