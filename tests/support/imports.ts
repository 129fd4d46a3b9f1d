// Which file of a folder imports which, types and dynamic imports included: what tests of the structure look at.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'

/** By file of `src`, with slashes as on Unix, the files of it that are imported there. */
export function importsIn(src: string): ReadonlyMap<string, readonly string[]> {
  const unix = (path: string) => normalize(path).replaceAll('\\', '/')
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .map(unix)
    .filter(name => name.endsWith('.ts') && !name.endsWith('.d.ts'))
  const importsOf = (file: string) => {
    const text = readFileSync(join(src, file), 'utf8')
    const found = [...text.matchAll(/(?:from|import) ?\(?'(\.[^']+)\.js'/g)]
    return found.map(([, path]) => unix(relative(src, join(src, dirname(file), `${path}.ts`))))
  }
  return new Map(files.map(file => [file, importsOf(file)]))
}

/** The same of a crate's `src`. What a module hands on (`pub use`) counts as imported from where it is. */
export function usesIn(src: string): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .map(path => path.replaceAll('\\', '/'))
    .filter(path => path.endsWith('.rs'))
  const fileOf = new Map(files.map(file => [moduleOf(file).join('::'), file]))
  const codeOf = new Map(files.map(file => [file, readFileSync(join(src, file), 'utf8').replace(NO_CODE, '')]))
  const usesOf = (file: string) => {
    const own = moduleOf(file)
    const used = [...codeOf.get(file)!.matchAll(USES)].flatMap(([, pub, paths, path]) =>
      expanded(paths ?? path!).map(names => ({ isPublic: pub !== undefined, path: absolute(names, own, fileOf) })),
    )
    return used.flatMap(({ isPublic, path }) => (path === undefined ? [] : [{ isPublic, path }]))
  }
  /** by what a module hands on, where that is */
  const handedOn = new Map<string, readonly string[]>()
  for (const file of files) {
    for (const { isPublic, path } of usesOf(file)) {
      if (isPublic) handedOn.set([...moduleOf(file), path.at(-1)!].join('::'), path)
    }
  }
  const resolved = (path: readonly string[]): string | undefined => {
    for (let length = path.length; length >= 0; length--) {
      const name = path.slice(0, length).join('::')
      const found = fileOf.get(name)
      if (found !== undefined) return found
      const other = handedOn.get(name)
      if (other !== undefined) return resolved(other)
    }
    return undefined
  }
  return new Map(
    files.map(file => {
      const others = usesOf(file).flatMap(({ isPublic, path }) => (isPublic ? [] : (resolved(path) ?? [])))
      return [file, [...new Set(others)].filter(other => other !== file)]
    }),
  )
}

/** Comments, and unit tests. */
const NO_CODE = /^\s*\/\/.*$|#\[cfg\(test\)\]\s*mod tests \{[\s\S]*/gm
/** `use` with its paths, and whether it hands them on; or a path elsewhere. */
const USES = /^\s*(pub(?:\(\w+\))? )?use ([^;]+);|\b((?:crate|super)(?:::\w+)+)/gm

const moduleOf = (file: string): string[] =>
  file
    .replace(/(^|\/)(mod|lib)\.rs$|\.rs$/, '')
    .split('/')
    .filter(name => name !== '')

/** Each path of `a::{b, c::{d}}`. */
function expanded(tree: string): string[][] {
  const open = tree.indexOf('{')
  if (open === -1)
    return [
      tree
        .replace(/ as .*/s, '')
        .trim()
        .split('::'),
    ]
  const before = tree
    .slice(0, open)
    .split('::')
    .map(name => name.trim())
    .filter(name => name !== '')
  const parts: string[] = []
  let [depth, part] = [0, '']
  for (const letter of tree.slice(open + 1, tree.lastIndexOf('}'))) {
    if (letter === ',' && depth === 0) {
      parts.push(part)
      part = ''
      continue
    }
    depth += letter === '{' ? 1 : letter === '}' ? -1 : 0
    part += letter
  }
  return [...parts, part]
    .filter(each => each.trim() !== '')
    .flatMap(each => expanded(each).map(names => [...before, ...names.filter(name => name !== 'self')]))
}

/** From the crate's root on; undefined: of another crate. */
function absolute(
  names: readonly string[],
  own: readonly string[],
  fileOf: ReadonlyMap<string, string>,
): string[] | undefined {
  const [first, ...rest] = names
  if (first === 'crate') return rest
  if (first === 'self') return [...own, ...rest]
  if (first === 'super') {
    const up = names.filter(name => name === 'super').length
    return [...own.slice(0, own.length - up), ...names.slice(up)]
  }
  const child = [...own, first!]
  return fileOf.has(child.join('::')) ? [...own, ...names] : undefined
}

/** All arrows, as `file → imported`. */
export function arrowsOf(imports: ReadonlyMap<string, readonly string[]>): [file: string, imported: string][] {
  return [...imports].flatMap(([file, others]) => others.map((other): [string, string] => [file, other]))
}

/** Circles of imports, as `a → b → a`: one for each import that closes one. */
export function circlesIn(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file) || path.includes(file)) return
    for (const other of imports.get(file) ?? []) visit(other, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
  return circles
}
