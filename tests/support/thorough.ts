// Which tests run when. `npm test` takes samples of some. `npm run test:all` runs everything: THOROUGH is true, and files called
// `*.all.test.ts` run (vitest.config.mjs).

export const THOROUGH = process.env['KEYHUSH_THOROUGH'] === '1'
