// `npm run bench` and `npm run soak` begin here: `node tests/run.mjs bench | soak | traffic [args]`. All are
// TypeScript, which Vite compiles as it is loaded.

import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'

const programs = {
  bench: '/bench/main.ts',
  soak: '/state/soak.ts',
  traffic: '/bench/traffic.ts',
}
const [name, ...args] = process.argv.slice(2)
const compiler = await createServer({
  root: fileURLToPath(new URL('.', import.meta.url)),
  configFile: false,
  appType: 'custom',
  server: { middlewareMode: true, ws: false, watch: null },
})
try {
  const program = await compiler.ssrLoadModule(programs[name])
  process.exitCode = await program[name](args)
} finally {
  await compiler.close()
}
