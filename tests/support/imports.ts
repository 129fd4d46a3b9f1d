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
