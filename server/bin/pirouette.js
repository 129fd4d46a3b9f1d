#!/usr/bin/env node
// The `pirouette` command. The program itself is built into dist/ from src/cli.ts.
import { run } from '../dist/cli.js'

process.exitCode = await run(process.argv.slice(2))
