// `npm run bench` begins here. The bench itself is TypeScript, which Vite compiles as it is loaded.

import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))
const compiler = await createServer({
  root,
  configFile: false,
  appType: 'custom',
  server: { middlewareMode: true, ws: false },
})
try {
  const { bench } = await compiler.ssrLoadModule('/bench/main.ts')
  process.exitCode = await bench(process.argv.slice(2))
} finally {
  await compiler.close()
}
