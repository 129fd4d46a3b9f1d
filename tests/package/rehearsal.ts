// `npm run rehearse`: a release as a new maintainer makes it, from docs/releasing.md alone, to a registry on this machine. The
// release is made and published in a fresh clone, verified in another folder, and installed into a new app of Vite, a new app of
// Next and a new service in Node. It takes about ten minutes. Nothing leaves this machine, except that apps get others' packages.
//
//   npm run rehearse             all of it
//   npm run rehearse -- FOLDER   with the tarballs and the list that `npm run pack` or a release left there: only the apps

import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startServers } from '@keyhush/server/testing'
import { freePort } from '../../server/test/helpers.js'
import { launchBrowser } from '../../tools/browsers.mjs'
import { readJson } from '../../tools/release/packages.mjs'
import { temporaryFolder } from '../support/servers.js'
import { serveFiles } from '../support/web.js'
import { env as npm, root, runWith, write } from './packed.js'

const TOOLS = join(root, 'tests/package/registry')

/** Returns the exit code. */
export async function rehearse([packed]: readonly string[]): Promise<number> {
  const folder = await temporaryFolder()
  const children: ChildProcess[] = []
  const serve = (cwd: string, env: NodeJS.ProcessEnv, said: RegExp, command: string, ...args: string[]) =>
    begin(children, { cwd, env, said }, command, ...args)
  const started = performance.now()
  const note = (what: string) =>
    console.log(`${((performance.now() - started) / 1000).toFixed(0).padStart(5)} s  ${what}`)
  try {
    const { version } = readJson(join(root, 'package.json'))
    const clone = join(folder.path, 'clone')
    const elsewhere = packed ?? join(folder.path, 'elsewhere')
    const key = join(folder.path, 'release.key')
    const at = (cwd: string, command: string, ...args: string[]) => runWith(npm, cwd, command, ...args)
    await at(root, 'npm', 'ci', '--prefix', TOOLS, '--ignore-scripts')

    if (packed === undefined) {
      await at(folder.path, 'git', 'clone', '--quiet', root, clone)
      await at(clone, 'git', 'config', 'user.name', 'A new maintainer')
      await at(clone, 'git', 'config', 'user.email', 'maintainer@keyhush.example')
      await symlink(join(root, '.tools'), join(clone, '.tools'))
      await at(folder.path, 'openssl', 'genpkey', '-algorithm', 'ed25519', '-out', key)
      await at(clone, 'npm', 'run', 'release', '--', '--key', key, version)
      note(`a fresh clone has made release ${version}`)

      await mkdir(elsewhere)
      const made = join(clone, 'build/release', version)
      for (const file of await readdir(made)) await write(elsewhere, { [file]: await readFile(join(made, file)) })
      for (const block of await blocksOf('## Check a release'))
        await at(elsewhere, 'bash', '-euc', block.replaceAll('0.1.0', version))
      note('in another folder, the page’s commands verify its list')
    }

    const registry = await startRegistry(serve, join(folder.path, 'registry'))
    const user = join(folder.path, 'user.npmrc')
    await writeFile(user, `registry=${registry}\n//${new URL(registry).host}/:_authToken=rehearsal\n`)
    const local: NodeJS.ProcessEnv = { ...npm, npm_config_registry: registry, npm_config_userconfig: user }
    delete local['NODE_ENV']
    local['NEXT_TELEMETRY_DISABLED'] = '1'
    if (packed === undefined) {
      await runWith(local, clone, 'npm', 'run', 'release', '--', '--publish')
      for (const file of await tarballsIn(elsewhere)) {
        const folders = [elsewhere, join(clone, 'build/packed', version)]
        const [first, second] = await Promise.all(folders.map(each => readFile(join(each, file))))
        if (!first!.equals(second!)) throw new Error(`${file}: expected the bytes of the release, came others`)
      }
      note('published from the tag; its tarballs, built in another folder, are the same byte for byte')
    } else {
      for (const file of await tarballsIn(packed)) await runWith(local, packed, 'npm', 'publish', `./${file}`)
      note(`published what is in ${packed}`)
    }

    const { servers, publisherKey, close } = await startServers({ otter: 'river' })
    const call = `open(${JSON.stringify({ servers, publisherKey })})`
    const app = (name: string) => join(folder.path, name)
    const run = (cwd: string, command: string, ...args: string[]) => runWith(local, cwd, command, ...args)
    try {
      await mkdir(app('service'))
      await run(app('service'), 'npm', 'init', '--yes')
      await run(app('service'), 'npm', 'install', '--ignore-scripts', '@keyhush/client', '@keyhush/server')
      await write(app('service'), { 'service.mjs': await readFile(join(import.meta.dirname, 'service.mjs')) })
      const service = await run(app('service'), 'node', 'service.mjs', '--once')
      note(`a new service in Node: ${service.trim()}`)
      const list = await readFile(join(elsewhere, `keyhush-${version}.sums`), 'utf8')
      const checked = await checkInstalled(join(app('service'), 'node_modules'), list)
      note(`${checked} installed files are those of the list`)

      const create = (name: string) => join(TOOLS, 'node_modules', name)
      await run(
        folder.path,
        'node',
        join(create('create-vite'), 'index.js'),
        'vite-app',
        '--template',
        'vanilla',
        '--no-interactive',
      )
      await run(app('vite-app'), 'npm', 'install', '--ignore-scripts', '@keyhush/client')
      await write(app('vite-app'), {
        'src/main.js': `import { open } from '@keyhush/client'\n${call}.then(map => map.getText('otter')).then(text => { document.title = text })\n`,
      })
      await run(app('vite-app'), 'npm', 'run', 'build')
      const site = await serveFiles(join(app('vite-app'), 'dist'))
      const browser = await launchBrowser('chromium')
      try {
        const page = await browser.newPage()
        await page.goto(site.url)
        await page.waitForFunction(() => document.title === 'river')
      } finally {
        await browser.close()
        await site.close()
      }
      note('a new app of Vite, built, in Chromium: river')

      const options = [
        '--yes',
        '--js',
        '--app',
        '--no-tailwind',
        '--no-eslint',
        '--no-src-dir',
        '--skip-install',
        '--disable-git',
      ]
      await run(folder.path, 'node', join(create('create-next-app'), 'dist/index.js'), 'next-app', ...options)
      await run(app('next-app'), 'npm', 'install', '--ignore-scripts', '@keyhush/client')
      await write(app('next-app'), {
        // without the fonts of its template, which it would download
        'app/layout.js': "export default ({ children }) => <html lang='en'><body>{children}</body></html>\n",
        'app/page.js': `import { Suspense } from 'react'
import { connection } from 'next/server'
import { open } from '@keyhush/client'
async function Home() {
  await connection()
  const map = await ${call}
  const text = await map.getText('otter')
  await map.close()
  return <p>{'The otter lives in a ' + text}</p>
}
export default () => <Suspense><Home /></Suspense>\n`,
      })
      await run(app('next-app'), 'npm', 'run', 'build')
      const url = await serve(
        app('next-app'),
        local,
        /http:\/\/(?:localhost|127\.0\.0\.1):\d+/,
        'npm',
        'start',
        '--',
        '--port',
        String(await freePort()),
      )
      const html = await (await fetch(url)).text()
      if (!html.includes('lives in a river')) throw new Error(`Next answered:\n${html}`)
      note('a new app of Next, built, rendered on its server: river')
    } finally {
      await close()
    }
    console.log('The release works.')
    return 0
  } finally {
    for (const child of children) if (child.exitCode === null) process.kill(-child.pid!, 'SIGKILL')
    await rm(join(folder.path, 'clone/.tools'), { force: true })
    await folder.remove()
  }
}

const tarballsIn = async (folder: string) => (await readdir(folder)).filter(name => name.endsWith('.tgz'))

type Serve = (cwd: string, env: NodeJS.ProcessEnv, said: RegExp, command: string, ...args: string[]) => Promise<string>

/** Verdaccio, which has our packages alone and asks the registry of this machine for others. Its URL. */
async function startRegistry(serve: Serve, folder: string): Promise<string> {
  const others = (await runWith(npm, root, 'npm', 'config', 'get', 'registry')).trim()
  const port = await freePort()
  await write(folder, {
    'config.yaml': `storage: ./storage
uplinks: { others: { url: ${JSON.stringify(others)} } }
packages:
  '@keyhush/*': { access: $all, publish: $all }
  '**': { access: $all, proxy: others }
log: { type: stdout, format: pretty, level: http }
`,
  })
  const program = join(TOOLS, 'node_modules/verdaccio/bin/verdaccio')
  await serve(folder, npm, /http address/, 'node', program, '--config', 'config.yaml', '--listen', `127.0.0.1:${port}`)
  return `http://127.0.0.1:${port}/`
}

/** How many installed files there are of ours. Throws if one is not that of the list. */
async function checkInstalled(modules: string, list: string): Promise<number> {
  const sums = new Map([...list.matchAll(/^SHA256 \((.*)\) = (.*)$/gm)].map(([, path, sum]) => [path!, sum!]))
  const entries = await readdir(join(modules, '@keyhush'), { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  for (const file of files) {
    const sum = createHash('sha256')
      .update(await readFile(file))
      .digest('hex')
    const path = file.slice(modules.length + 1)
    if (sums.get(path) !== sum) throw new Error(`${path}: expected ${sums.get(path)}, came ${sum}`)
  }
  return files.length
}

/** The commands in a section of docs/releasing.md. */
async function blocksOf(heading: string): Promise<string[]> {
  const page = await readFile(join(root, 'docs/releasing.md'), 'utf8')
  const section = page.split(`${heading}\n`)[1]!.split(/^## /m)[0]!
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, commands]) => commands!)
}

/** Starts a command that serves until the end; resolves to what matches `said`, once it has said it. */
function begin(
  children: ChildProcess[],
  { cwd, env, said }: { cwd: string; env: NodeJS.ProcessEnv; said: RegExp },
  command: string,
  ...args: string[]
): Promise<string> {
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  children.push(child)
  let output = ''
  return new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', text => {
        output += text
        const match = said.exec(output)
        if (match !== null) resolve(match[0])
      })
    }
    child.once('close', () => reject(new Error(`${command} ${args.join(' ')} ended:\n${output}`)))
    child.once('error', reject)
  })
}
