// `npm run bench` and `npm run soak` begin here: `node tests/run.mjs bench | soak [living] [args]`. They are TypeScript,
// which Vite compiles as it is loaded.

import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'

const [name, ...args] = process.argv.slice(2)
const living = name === 'soak' && args[0] === 'living'
const program = living ? '/living/soak.ts' : { bench: '/bench/main.ts', soak: '/state/soak.ts' }[name]
const compiler = await createServer({
  root: fileURLToPath(new URL('.', import.meta.url)),
  configFile: false,
  appType: 'custom',
  server: { middlewareMode: true, ws: false },
})
try {
  const module = await compiler.ssrLoadModule(program)
  process.exitCode = await module[name](living ? args.slice(1) : args)
} finally {
  await compiler.close()
}
