#!/usr/bin/env node
// The `pirouette` command. The program itself is built into dist/ from src/cli.ts.
await import('../dist/cli.js')
