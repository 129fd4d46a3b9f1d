// Steps and child processes for the scripts in this folder. Uses Node built-ins only.
//
// A step prints a line with its time when it ends, and progress meanwhile. Its children's output is shown only if they fail. A step
// with inputs is skipped while these are as they were when it last succeeded, and its outputs exist (stamps in .cache/).
import { AsyncLocalStorage } from 'node:async_hooks'
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, setPriority } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url)) // not import.meta.dirname: old Node.js has to get as far as the message that refuses it
export const cache = join(root, '.cache')

/** A failure whose message tells the user what to do. It is printed without a stack. */
export class Failure extends Error {}

// ---- children -------------------------------------------------------------------------------------

// rustup's installer puts cargo on the PATH from the next login on.
const cargoBin = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'bin')
export const environment = { ...process.env, PATH: `${process.env.PATH ?? ''}${delimiter}${cargoBin}` }

const children = new Set()
const ownGroup = process.platform !== 'win32'

function signal(child, name) {
  try {
    // Each child leads a process group, so that the signal reaches its own children too.
    if (ownGroup) process.kill(-child.pid, name)
    else child.kill(name)
  } catch {
    // gone already
  }
}

let stopping = false
/** Sends SIGTERM to every child, waits up to `patienceMs`, then kills those that are left. */
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
 * Runs a command. Returns its exit code and its output; throws a Failure with the output if the code is not 0, unless `mayFail`.
 * `show` passes the output through instead. `nice`: 0 to 19, lower priority.
 */
export async function run(command, args, { cwd = root, env = {}, mayFail = false, show = false, nice = 0 } = {}) {
  if (stopping) throw new Failure('stopped')
  if (show) clearStatus()
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
  const one = currentStep.getStore()
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', chunk => {
      printed.push(chunk)
      const said = chunk
        .toString()
        .split('\n')
        .filter(line => line.trim() !== '' && !line.startsWith('npm warn'))
      if (one) one.detail = said.at(-1)?.trim() ?? one.detail
    })
  }
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

const currentStep = new AsyncLocalStorage()
/** steps that run now */
const running = new Set()
/** how many children print by themselves */
let showing = 0
let timer
let hasStatus = false
const { stdout } = process
const STATUS_MS = stdout.isTTY ? 500 : 10_000

/** Runs `work`, then prints `what … 1.2 s`. Steps may run side by side and inside others. Returns what `work` returns. */
export async function step(what, work) {
  const one = { what, start: performance.now(), detail: '', outer: currentStep.getStore() }
  running.add(one)
  timer ??= setInterval(showStatus, STATUS_MS).unref()
  if (stdout.isTTY) showStatus()
  const end = outcome => {
    running.delete(one)
    if (running.size === 0) timer = clearInterval(timer)
    clearStatus()
    console.log(`${what} … ${outcome}`)
  }
  try {
    const result = await currentStep.run(one, work)
    end(secondsSince(one.start))
    return result
  } catch (error) {
    end(stopping ? 'stopped' : 'failed')
    throw error
  }
}

/** Sets what the current step is doing, for its progress. */
export function report(detail) {
  const one = currentStep.getStore()
  if (one !== undefined) one.detail = detail
}

const secondsSince = start => `${((performance.now() - start) / 1000).toFixed(1)} s`

/** On a terminal one line, which is rewritten; elsewhere a line for each step now and then. Steps that have inner ones are left out. */
function showStatus() {
  if (showing > 0) return
  const outer = new Set([...running].map(one => one.outer))
  const lines = [...running]
    .filter(one => !outer.has(one))
    .map(({ what, start, detail }) => `${what} … ${secondsSince(start)}${detail && `, ${detail}`}`)
  clearStatus()
  if (stdout.isTTY) stdout.write(lines.join(' | ').slice(0, stdout.columns - 1))
  else for (const line of lines) console.log(`  ${line}`)
  hasStatus = stdout.isTTY
}

function clearStatus() {
  if (hasStatus) stdout.write('\r\x1b[K')
  hasStatus = false
}

/**
 * A step that is skipped while nothing has changed: the contents of the files and folders `inputs`, the strings `also`, and that
 * all `outputs` exist.
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

/** What `work` resolved to when `inputs` (files and folders) and `also` (strings) were as they are, if `isKept` said so; else runs it. */
export async function cachedResult(name, { inputs, also = [], isKept }, work) {
  const file = join(cache, `${name}.json`)
  const key = digest(inputs, also)
  const [before, ...last] = readOr(file, '').split('\n')
  if (before === key) return JSON.parse(last.join('\n'))
  rmSync(file, { force: true })
  const result = await work()
  mkdirSync(cache, { recursive: true })
  if (isKept(result)) writeFileSync(file, `${key}\n${JSON.stringify(result)}`)
  return result
}

// Names and paths of what steps make. They are no inputs, unless a step names them.
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
/** For a program that runs until it is stopped: `work` runs then, and the exit code is 0. */
export function whenStopped(work) {
  cleanUp = work
}

/** Runs a script's main function. Prints failures, sets the exit code, and leaves no child behind. */
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
    const isPlain = error instanceof Failure || `${error.code}`.startsWith('ERR_PARSE_ARGS')
    console.error(isPlain ? `\n${error.message}` : error)
    await stopChildren()
    process.exitCode = 1
  }
}

/** Calls `act` when the parent is gone: npm passes a signal only to the shell that started us, and that shell just exits. */
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
