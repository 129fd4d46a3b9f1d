// Runs a program in TypeScript, which Vite compiles as it is loaded, for `npm run bench`, `soak`, `matrix`, `rehearse`, `papers` and `fuzz`:
// `node tests/run.mjs PROGRAM [PART] [args]`.

import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'

const programs = {
  bench: '/bench/main.ts',
  capacity: '/bench/capacity.ts',
  processes: '/bench/processes.ts',
  soak: '/world/soak.ts', // takes `living` itself
  following: '/world/following/soak.ts',
  replicas: '/soak/replicas.ts',
  memory: '/soak/memory.ts',
  fence: '/soak/fence.ts',
  'one-server': '/soak/one-server.ts',
  traffic: '/bench/traffic.ts',
  papers: '/bench/papers-plots.ts',
  speeds: '/bench/speeds.ts',
  pointproofs: fileURLToPath(new URL('../packages/pointproofs/test/bench.ts', import.meta.url)),
  confidential: fileURLToPath(new URL('../packages/confidential/test/bench.ts', import.meta.url)),
  wire: fileURLToPath(new URL('../packages/protocol/test/fuzz.ts', import.meta.url)),
  matrix: '/package/matrix.ts',
  rehearse: '/package/rehearsal.ts',
}
const [name, ...args] = process.argv.slice(2)
const others = {
  bench: ['capacity', 'confidential', 'processes'],
  soak: ['following', 'replicas', 'memory', 'fence', 'one-server'],
}
const program = others[name]?.includes(args[0]) ? args.shift() : name
const compiler = await createServer({
  root: fileURLToPath(new URL('.', import.meta.url)),
  configFile: false,
  appType: 'custom',
  server: { middlewareMode: true, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
})
try {
  const module = await compiler.ssrLoadModule(programs[program])
  process.exitCode = await module[name](args)
} catch (error) {
  if (!`${error.code}`.startsWith('ERR_PARSE_ARGS')) throw error // of a program that was run it is a number
  console.error(`${error.message}\nWhat it takes stands at the head of tests${programs[program]}`)
  process.exitCode = 2
} finally {
  await compiler.close()
}
