// `npm run soak -- tests` runs the tests of `npm test` over all they could look at; `npm test` takes a sample where that
// would take long.

export const THOROUGH = process.env['KEYHUSH_THOROUGH'] === '1'
