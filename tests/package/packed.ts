// The tarballs that npm would publish, and commands of apps that have installed them.

import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** npm uses its cache. */
export const env: NodeJS.ProcessEnv = {
  ...process.env,
  ...{ npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' },
}

/** Runs a command; its error shows what it printed. */
export async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
  return await runWith(env, cwd, command, ...args)
}

/** The same, with these variables. */
export async function runWith(env: NodeJS.ProcessEnv, cwd: string, command: string, ...args: string[]) {
  try {
    return (await promisify(execFile)(command, args, { cwd, env, maxBuffer: 1e8 })).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout ?? ''}${stderr ?? error}`)
  }
}

/** What a command of npm's packages prints here. */
export const tool = (path: string, ...args: string[]) =>
  run(root, process.execPath, join(root, 'node_modules', path), ...args)

/** Writes files below a folder, with the folders that they are in. */
export async function write(folder: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [name, contents] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), contents)
  }
}

/** What a script prints that is written into a folder. `flags`: Node's. */
export async function ran(folder: string, name: string, source: string, ...flags: string[]): Promise<string> {
  await write(folder, { [name]: source })
  return await run(folder, process.execPath, ...flags, name)
}

/** Packs workspaces into a folder. The files. */
export async function pack(workspaces: readonly string[], folder: string): Promise<string[]> {
  const flags = workspaces.flatMap(name => ['-w', name])
  const printed = await run(root, 'npm', 'pack', ...flags, '--pack-destination', folder, '--silent')
  return printed
    .trim()
    .split('\n')
    .map(name => join(folder, name))
}
