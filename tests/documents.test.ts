// docs/ARCHITECTURE.md and docs/CONTRIBUTING.md agree with the repository: every folder has a row, every import is one that the
// folder's row allows, no import closes a circle, and every path in CONTRIBUTING.md exists.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { arrowsOf, circlesIn, importsIn, usesIn } from './support/imports.js'

const root = join(import.meta.dirname, '..')
const architecture = readFileSync(join(root, 'docs/ARCHITECTURE.md'), 'utf8')
const contributing = readFileSync(join(root, 'docs/CONTRIBUTING.md'), 'utf8')

/** what the third column calls a package, or what one is made from */
const PACKAGES: Readonly<Record<string, string>> = {
  client: 'packages/client/src',
  confidential: 'packages/confidential/src',
  generated: 'packages/wasm/generated',
  pointproofs: 'packages/pointproofs/src',
  protocol: 'packages/protocol/src',
  server: 'server/src',
  wasm: 'packages/wasm/src',
}
const CRATES: Readonly<Record<string, string>> = {
  keyhush_core: 'rust-core/core/src',
  keyhush_kernels: 'rust-core/kernels/src',
  keyhush_pointproofs: 'packages/pointproofs/rust',
}

interface Row {
  readonly folder: string
  readonly what: string
  /** folders; undefined: everything */
  readonly allowed: ReadonlySet<string> | undefined
}

/** The tables of folders, by folder. A heading that is a path is the folder of its table. */
function readRows(): Map<string, Row> {
  const rows = new Map<string, Row>()
  for (const section of architecture.split(/^### /m).slice(1)) {
    const heading = section.slice(0, section.indexOf('\n'))
    const base = existsSync(join(root, heading)) ? heading : ''
    const pathOf = (name: string) => (name === 'src' ? base : join(base, name))
    for (const [, name, what, may] of section.matchAll(/^\| `([\w/-]+)` \| (.*?) \| (.*?) \|$/gm)) {
      const names = may === 'nothing' ? [] : may!.split(', ')
      const allowed = may === 'everything' ? undefined : new Set(names.map(each => PACKAGES[each] ?? pathOf(each)))
      if (rows.has(pathOf(name!))) throw new Error(`ARCHITECTURE.md has two rows for ${pathOf(name!)}; remove one`)
      rows.set(pathOf(name!), { folder: pathOf(name!), what: what!, allowed })
    }
  }
  return rows
}

const rows = readRows()

/** The row of a path: its own, or that of the nearest folder around it. */
function rowOf(path: string): Row | undefined {
  for (let folder = path; folder !== '.'; folder = dirname(folder)) {
    const row = rows.get(folder)
    if (row !== undefined) return row
  }
  return undefined
}

const MADE = /(^|\/)(node_modules|target|dist|build|generated)(\/|$)/
const files = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map(name => join(folder, name))
    .filter(path => /\.(m?ts|m?js|rs)$/.test(path) && !MADE.test(path))

const foldersIn = (folder: string) =>
  readdirSync(join(root, folder), { withFileTypes: true })
    .filter(entry => entry.isDirectory() && !MADE.test(entry.name))
    .map(entry => join(folder, entry.name))

const SOURCES = [
  ...['packages', 'rust-core'].flatMap(foldersIn).map(folder => join(folder, 'src')),
  ...['server/src', 'demo/src', 'tests', 'tools'],
].filter(folder => existsSync(join(root, folder)))

test('every folder has a row in docs/ARCHITECTURE.md, and every row is a folder', () => {
  const isBare = (folder: string) => files(folder).every(path => dirname(path) !== folder)
  const wanted = [...SOURCES.filter(folder => !isBare(folder)), ...SOURCES.flatMap(foldersIn)]
  const missing = wanted.filter(folder => !rows.has(folder))
  expect(missing.map(folder => `${folder} has no row: add one, with what it is and what it may import`)).toEqual([])
  const gone = [...rows.keys()].filter(folder => !existsSync(join(root, folder)))
  expect(gone.map(folder => `${folder} has a row and is no folder: delete the row, or mend its path`)).toEqual([])
})

test('what a row may import are folders with a row', () => {
  const known = new Set([...rows.keys(), ...Object.values(PACKAGES)])
  const unknown = [...rows.values()].flatMap(({ folder, allowed }) =>
    [...(allowed ?? [])]
      .filter(other => !known.has(other))
      .map(other => `${folder} may import ${other}, which has no row`),
  )
  expect(unknown).toEqual([])
})

/** The paths that a TypeScript or JavaScript file imports: dynamic imports and types too. */
function importsOf(file: string): string[] {
  const code = readFileSync(join(root, file), 'utf8').replace(/^\s*(\/\/|\*|\/\*\*).*$/gm, '')
  return [...code.matchAll(/\b(?:from|import)\b ?\(?'([^'\n]+)'/g)].flatMap(([, path]) => {
    if (path!.startsWith('.')) return [normalize(join(dirname(file), path!))]
    const [scope, name] = path!.split('/')
    return scope === '@keyhush' ? [PACKAGES[name!]!] : []
  })
}

/** The folders whose modules a Rust file uses, without those of its unit tests. */
function usesOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8').replace(/^\s*\/\/.*$/gm, '')
  const code = text.replace(/#\[cfg\(test\)\]\s*mod tests \{[\s\S]*$/, '')
  const src = file.slice(0, file.indexOf('/src/') + '/src'.length)
  const list = [...code.matchAll(/\bcrate::\{([^;]*)\}/g)].flatMap(([, names]) =>
    names!.replace(/\{[^}]*\}/g, '').split(','),
  )
  const names = [...[...code.matchAll(/\bcrate::(\w+)/g)].map(([, name]) => name!), ...list.map(each => each.trim())]
  const own = names.map(name => join(src, name.split('::')[0]!))
  const others = [...code.matchAll(/\b(keyhush_\w+)::/g)].map(([, crate]) => CRATES[crate!]!)
  return [...own.map(path => (rows.has(path) ? path : src)), ...others]
}

test('no import goes against the row of its folder', () => {
  let count = 0
  const against = [...rows.values()].flatMap(({ folder, allowed }) => {
    if (allowed === undefined) return []
    return files(folder).flatMap(file => {
      // A Rust module's file may stand beside its folder.
      const module = file.endsWith('.rs') ? file.slice(0, -'.rs'.length) : file
      if (rowOf(module)?.folder !== folder) return []
      const used = file.endsWith('.rs') ? usesOf(file) : importsOf(file)
      count += used.length
      return used
        .map(path => (MADE.test(path) ? PACKAGES['generated']! : (rowOf(path)?.folder ?? path)))
        .filter(other => other !== folder && !allowed.has(other))
        .map(
          other => `${file} imports from ${other}: ${folder} may not. Move the code, or change the row if it is meant`,
        )
    })
  })
  expect([...new Set(against)]).toEqual([])
  expect(count).toBeGreaterThan(1500)
})

test.each([...Object.values(PACKAGES).filter(folder => !MADE.test(`${folder}/`)), 'demo/src'])(
  'no import in %s closes a circle, of types either',
  folder => {
    const imports = importsIn(join(root, folder))
    expect(imports.size).toBeGreaterThan(5)
    for (const [, other] of arrowsOf(imports))
      if (!MADE.test(join(folder, other))) expect(imports.keys()).toContain(other)
    expect(circlesIn(imports), 'move what both need into a file of its own').toEqual([])
  },
)

test('what is imported on demand counts', () => {
  expect(importsIn(join(root, PACKAGES['client']!)).get('servers/ed25519.ts')).toContain('servers/curves.ts')
})

test('no use in rust-core closes a circle of files', () => {
  for (const crate of ['core', 'kernels', 'wasm', 'worker', 'papers', 'fuzz']) {
    expect(
      circlesIn(usesIn(join(root, 'rust-core', crate, 'src'))),
      'move what both need into a file of its own',
    ).toEqual([])
  }
  const core = usesIn(join(root, 'rust-core/core/src'))
  expect(core.get('tapir/state/journal.rs')).toContain('stored/update.rs')
  expect(arrowsOf(core).length).toBeGreaterThan(150)
})

// Two things of one name are read as one: a type has its name alone in its package. Entries may re-export it.
test.each(['packages/protocol/src', 'packages/wasm/src', 'packages/client/src', 'server/src', 'demo/src'])(
  'no two files of %s declare a type of one name',
  folder => {
    const declaredIn = new Map<string, string[]>()
    for (const file of files(folder)) {
      const declared = readFileSync(join(root, file), 'utf8').matchAll(
        /^(?:export )?(?:abstract )?(?:class|interface|type) (\w+)/gm,
      )
      for (const [, name] of declared) declaredIn.set(name!, [...(declaredIn.get(name!) ?? []), file])
    }
    expect(declaredIn.size).toBeGreaterThan(5)
    const twice = [...declaredIn].filter(([, all]) => all.length > 1)
    expect(twice.map(([name, all]) => `${name} is declared in ${all.join(' and ')}: name each by what it is`)).toEqual(
      [],
    )
  },
)

test('docs/CONTRIBUTING.md has a row that begins in each door of docs/ARCHITECTURE.md', () => {
  const begins = [...contributing.matchAll(/^\| [^|]* \| ([^|]*) \|/gm)].map(([, where]) => where!).join('\n')
  const doors = [...rows.values()].filter(({ what }) => what.includes('Door')).map(({ folder }) => folder)
  expect(doors.length).toBeGreaterThan(5)
  const missing = doors.filter(folder => !begins.includes(`\`${folder}/`))
  expect(missing.map(folder => `${folder} is a door: add a row for what is added there, which begins in it`)).toEqual(
    [],
  )
})

test('every path in docs/CONTRIBUTING.md exists', () => {
  const paths = [...contributing.matchAll(/`((?:docs|packages|rust-core|server|demo|tests|tools)\/[\w./-]*)`/g)]
  const gone = paths.map(([, path]) => path!).filter(path => !existsSync(join(root, path)))
  expect(gone.map(path => `${path} does not exist: mend the row that names it`)).toEqual([])
})

test('every example has a row in demo/examples/README.md, and a test that runs it', () => {
  const readme = readFileSync(join(root, 'demo/examples/README.md'), 'utf8')
  const files = ['tests/e2e', 'tests/browsers', 'tests/phones', 'tests/package/matrix'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(file => /\.test\.ts$|^[^/]+\/package\.json$/.test(file))
      .map(file => readFileSync(join(root, folder, file), 'utf8')),
  )
  const examples = readdirSync(join(root, 'demo/examples'), { withFileTypes: true }).filter(each => each.isDirectory())
  expect(examples.length).toBeGreaterThan(8)
  for (const { name } of examples) {
    expect(readme, `${name}: add its row to demo/examples/README.md`).toContain(`| [${name}](${name}/`)
    const isRun = files.some(text => new RegExp(`examples/${name}\\b|'${name}'`).test(text))
    expect(isRun, `${name}: add a test that runs it (docs/CONTRIBUTING.md, add an example)`).toBe(true)
  }
})

const THREATS = readFileSync(join(root, 'docs/threat-model.md'), 'utf8')
/** Short paths of docs/threat-model.md, as it explains them. */
const SHORT: readonly (readonly [RegExp, string])[] = [
  [/^client\//, 'packages/client/test/'],
  [/^core\//, 'rust-core/core/tests/'],
  [/^server\/(?=[\w-]+(\.all)?\.test\.ts$)/, 'server/test/'],
  [/^pointproofs\//, 'packages/pointproofs/test/'],
  [/^confidential\//, 'packages/confidential/test/'],
]

/** The tests that it names: each with its path, and the parts of titles in italics behind it. */
const named = [...THREATS.matchAll(/`([\w./-]+\.(?:ts|rs))`(?:,? \(([^)]*(?:\(\)[^)]*)*)\)|, \*([^*]+)\*)?/g)].map(
  ([, short, listed, alone]) => {
    const path = SHORT.reduce((name, [prefix, folder]) => name.replace(prefix, folder), short!)
    const titles = [...(listed ?? '').matchAll(/\*([^*]+)\*/g)].map(([, title]) => title!)
    return { path, titles: alone === undefined ? titles : [alone] }
  },
)

test('every test that docs/threat-model.md names exists, and has a title with the words in italics', () => {
  const missing = named.flatMap(({ path, titles }) => {
    if (!existsSync(join(root, path))) return [`${path}: no such file`]
    const source = readFileSync(join(root, path), 'utf8')
    const names = path.endsWith('.rs')
      ? [...source.matchAll(/\bfn (\w+)/g)].map(([, name]) => name!.replaceAll('_', ' '))
      : [...source.matchAll(/'(?:[^'\\\n]|\\.)*'|"[^"\n]*"|`[^`]*`/g)].map(([text]) => text)
    return titles.filter(title => !names.some(name => name.includes(title))).map(title => `${path}: no “${title}”`)
  })
  expect(missing).toEqual([])
  expect(named.flatMap(({ titles }) => titles).length).toBeGreaterThan(200)
})

test("Jest's pattern in docs/guide/bundlers.md is the one that an app of the matrix runs with", () => {
  const { jest } = JSON.parse(readFileSync(join(root, 'tests/package/matrix/test-runners/package.json'), 'utf8'))
  const [pattern] = jest.projects.find(({ displayName }: { displayName: string }) => displayName === 'commonjs')
    .transformIgnorePatterns as [string]
  const guide = readFileSync(join(root, 'docs/guide/bundlers.md'), 'utf8')
  expect(guide).toContain(`  transformIgnorePatterns: ['${pattern}'],\n`)
})

test("what a package's README names can be reached from where the package is published", () => {
  const packages = [...readdirSync(join(root, 'packages')).map(name => `packages/${name}`), 'server']
  const blob = 'https://github.com/keyhush/keyhush/blob/main/'
  const lost = packages.flatMap(folder => {
    const readme = readFileSync(join(root, folder, 'README.md'), 'utf8')
    const prose = readme.replace(/```[\s\S]*?```/g, '')
    const links = [...prose.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => link!)
    const isThere = (link: string) =>
      link.startsWith(blob) ? existsSync(join(root, link.slice(blob.length))) : /^https:/.test(link)
    const unlinked = [...prose.matchAll(/`(docs\/[^`]*)`/g)].map(([, path]) => path!)
    return [...links.filter(link => !isThere(link)), ...unlinked].map(what => `${folder}: ${what}`)
  })
  expect(lost).toEqual([])
})
