#!/usr/bin/env node
// The `keyhush-confidential` command. The program itself is built into dist/ from src/server/cli.ts.
import { run } from '../dist/server/cli.js'

process.exitCode = await run(process.argv.slice(2))
