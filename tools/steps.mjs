// Steps and child processes for the scripts in this folder, on Node built-ins alone.
//
// A step says one line, runs, and says how long it took. Its children are silent unless they fail, and
// then everything they printed is shown. A step that names its inputs is skipped while their contents,
// and its outputs' presence, are as they were when it last succeeded (stamps in .cache/).
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, setPriority } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url)) // import.meta.dirname: too new for a Node we only mean to refuse
export const cache = join(root, '.cache')

/** What a person can act on: printed without a stack. */
export class Failure extends Error {}

// ---- children -------------------------------------------------------------------------------------

// rustup's installer puts cargo on the PATH of the next login only.
const cargoBin = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'bin')
export const environment = { ...process.env, PATH: `${process.env.PATH ?? ''}${delimiter}${cargoBin}` }

const children = new Set()
const ownGroup = process.platform !== 'win32'

function signal(child, name) {
  try {
    // Each child leads a process group, so that what it started itself is reached too.
    if (ownGroup) process.kill(-child.pid, name)
    else child.kill(name)
  } catch {
    // gone already
  }
}

let stopping = false
/** Asks every child to stop, waits up to `patienceMs`, then kills what is left. */
export async function stopChildren(patienceMs = 5_000) {
  stopping = true
  for (const child of children) signal(child, 'SIGTERM')
  const deadline = Date.now() + patienceMs
  while (children.size > 0 && Date.now() < deadline) await new Promise(done => setTimeout(done, 20))
  for (const child of children) signal(child, 'SIGKILL')
}
process.on('exit', () => {
  for (const child of children) signal(child, 'SIGKILL')
})

/**
 * Runs a command to its end. Returns its exit code and what it printed; throws a Failure showing that if the code is
 * not 0, unless `mayFail`. `show` passes the output through as it comes instead of keeping it; `nice` (0 to 19) leaves the
 * processor to others.
 */
export async function run(command, args, { cwd = root, env = {}, mayFail = false, show = false, nice = 0 } = {}) {
  if (stopping) throw new Failure('stopped')
  if (show) endLine()
  const child = spawn(command, args, {
    cwd,
    env: { ...environment, ...env },
    detached: ownGroup,
    stdio: ['ignore', show ? 'inherit' : 'pipe', show ? 'inherit' : 'pipe'],
  })
  children.add(child)
  if (show) showing += 1
  if (nice > 0 && child.pid !== undefined) setPriority(child.pid, nice)
  const printed = []
  child.stdout?.on('data', chunk => printed.push(chunk))
  child.stderr?.on('data', chunk => printed.push(chunk))
  const code = await new Promise((done, failed) => {
    child.on('error', failed)
    child.on('close', (exitCode, signalName) => done(exitCode ?? signalName))
  })
    .catch(error => {
      throw new Failure(`could not run ${command}: ${error.message}`)
    })
    .finally(() => {
      children.delete(child)
      if (show) showing -= 1
    })
  const output = Buffer.concat(printed).toString()
  if (code !== 0 && !mayFail) {
    throw new Failure(`${output.trimEnd()}\n\nThis failed (${code}): ${[command, ...args].join(' ')}`.trimStart())
  }
  return { code, output }
}

/** The output of a quick command, or undefined if it is missing or fails. */
export function ask(command, args) {
  const { status, stdout } = spawnSync(command, args, { cwd: root, env: environment, encoding: 'utf8' })
  return status === 0 ? stdout : undefined
}

/** Runs the JavaScript command that an npm package installed. */
export const runPackage = (entry, args, options) =>
  run(process.execPath, [join(root, 'node_modules', entry), ...args], options)

// ---- steps ----------------------------------------------------------------------------------------

/** the step whose line has no end yet */
let unfinished
/** how many children print as they like */
let showing = 0

function endLine() {
  if (unfinished !== undefined) console.log()
  unfinished = undefined
}

/** `what … 1.2 s` on one line, also if several run side by side. Returns what `work` returns. */
export async function step(what, work) {
  const start = performance.now()
  const line = Symbol(what)
  if (showing === 0) {
    endLine()
    unfinished = line
    process.stdout.write(`${what} … `)
  }
  const say = outcome => {
    const begun = unfinished === line
    if (!begun) endLine()
    console.log(begun ? outcome : `${what} … ${outcome}`)
    unfinished = undefined
  }
  try {
    const result = await work()
    say(`${((performance.now() - start) / 1000).toFixed(1)} s`)
    return result
  } catch (error) {
    say(stopping ? 'stopped' : 'failed')
    throw error
  }
}

/**
 * A step that is skipped while nothing changed. `inputs` are files and folders (contents count) and `also` further
 * strings; `outputs` are paths that must exist.
 */
export async function cachedStep(name, what, { inputs, also = [], outputs }, work) {
  const stamp = join(cache, `${name}.stamp`)
  const key = digest(inputs, also)
  if (outputs.every(path => existsSync(join(root, path))) && readOr(stamp, '') === key) return
  rmSync(stamp, { force: true })
  await step(what, work)
  mkdirSync(cache, { recursive: true })
  writeFileSync(stamp, key)
}

// Names and paths of what steps make: not inputs, unless a step names them.
const made = new Set(['node_modules', 'dist', 'build', 'target', 'generated', '.tsbuildinfo', 'demo/data'])

function digest(paths, strings) {
  const hash = createHash('sha256').update(JSON.stringify(strings))
  const visit = path => {
    const full = join(root, path)
    if (!existsSync(full)) return
    if (statSync(full).isDirectory()) {
      for (const name of readdirSync(full).sort()) {
        if (!made.has(name) && !made.has(`${path}/${name}`)) visit(`${path}/${name}`)
      }
    } else {
      hash.update(`\n${path}\n`).update(createHash('sha256').update(readFileSync(full)).digest())
    }
  }
  for (const path of paths) visit(path)
  return hash.digest('hex')
}

function readOr(path, otherwise) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return otherwise
  }
}

// ---- programs -------------------------------------------------------------------------------------

let cleanUp
/** For a program that runs until it is told to stop: what to do then. Its exit code is 0. */
export function whenStopped(work) {
  cleanUp = work
}

/** Runs a script's main function: failures in words, a status that tells, and no child left behind. */
export async function main(program) {
  const stop = async code => {
    await stopChildren()
    await cleanUp?.()
    process.exit(cleanUp ? 0 : code)
  }
  process.once('SIGINT', () => stop(130))
  process.once('SIGTERM', () => stop(143))
  process.once('SIGHUP', () => stop(129))
  whenOrphaned(() => stop(143))
  try {
    process.exitCode = (await program()) ?? 0
  } catch (error) {
    if (stopping) return
    console.error(error instanceof Failure ? `\n${error.message}` : error)
    await stopChildren()
    process.exitCode = 1
  }
}

/** npm hands a signal to the shell it started us with, and the shell just dies: notice that it is gone. */
function whenOrphaned(act) {
  const parent = process.ppid
  if (process.env.npm_lifecycle_event === undefined) return
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    act()
  }, 500)
  watch.unref()
}
