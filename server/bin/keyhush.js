#!/usr/bin/env node
// The `keyhush` command. The program itself is built into dist/ from src/cli.ts.
const { run } = await import('../dist/cli.js').catch(error => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND' || import.meta.url.includes('/node_modules/')) throw error
  console.error(`keyhush: not built, or not to the end; npm run build in its repository does that\n${error.message}`)
  process.exit(1)
})

const UNPRINTED = 6

process.stdout.on('error', error => {
  const readerHasGone = error.code === 'EPIPE' // as `| head -1` does
  if (!readerHasGone) {
    const message = `expected room for what it prints on standard output, got ${error.code}; make room, or print elsewhere`
    console.error(`keyhush: ${message}`)
  }
  process.exit(UNPRINTED)
})

// A server runs on without a reader of its log, or room for it.
process.stderr.on('error', () => {})

process.exitCode = await run(process.argv.slice(2))
