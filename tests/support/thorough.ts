// The one rule of what runs when. `npm test` is what a change needs: of some tests it takes a sample. `npm run test:all` is
// everything: THOROUGH is true, nothing is left to a sample, and files called `*.all.test.ts` run (vitest.config.mjs).

export const THOROUGH = process.env['KEYHUSH_THOROUGH'] === '1'
