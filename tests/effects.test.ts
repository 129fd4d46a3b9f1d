// Every option of `open()` and every flag has an effect: code reads it, by the references that TypeScript finds.

import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { PACKAGED } from '@keyhush/protocol'
import { type Node, SyntaxKind } from 'typescript/unstable/ast'
import { isCallExpression, isInterfaceDeclaration } from 'typescript/unstable/ast/is'
import { API, type Project, type Type } from 'typescript/unstable/sync'
import { afterAll, expect, test } from 'vitest'
import { OPTIONS } from '../packages/client/src/option-table.js'

const root = join(import.meta.dirname, '..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const api = new API({ cwd: root })
afterAll(() => api.close())

function projectOf(folder: string): Project {
  const config = join(root, folder, 'tsconfig.json')
  return api.updateSnapshot({ openProjects: [config] }).getProject(config)!
}

function nodesOf({ program }: Project, file: string): Node[] {
  const nodes: Node[] = []
  const visit = (node: Node) => {
    nodes.push(node)
    node.forEachChild(visit)
  }
  visit(program.getSourceFile(join(root, file))!)
  return nodes
}

/** The files that read a property of a type. */
function readersOf(project: Project, type: Type, property: string): string[] {
  const { checker } = project
  return (checker.getPropertyOfType(type, property)?.declarations ?? []).flatMap(declaration => {
    const { name } = declaration.resolve(project) as Node & { name: Node }
    const references = checker.getReferencedSymbolsForNode(name, name.end - 1).flatMap(each => each.references)
    const reads = references.filter(each => READS.has(each.resolve(project)!.parent.kind))
    return reads.map(({ path }) => relative(root, path))
  })
}

const READS = new Set([SyntaxKind.PropertyAccessExpression, SyntaxKind.BindingElement])

/** The properties of an interface that no file reads where `where` says. */
function unreadOf(
  project: Project,
  where: RegExp,
  ...way: readonly (readonly [file: string, name: string])[]
): string[] {
  const types = way.map(([file, name]) => {
    const found = nodesOf(project, `packages/client/src/${file}`).filter(isInterfaceDeclaration)
    return project.checker.getTypeAtLocation(found.find(each => each.name.text === name)!.name)!
  })
  const names = project.checker.getPropertiesOfType(types[0]!).map(({ name }) => name)
  return names
    .filter(name => !types.flatMap(type => readersOf(project, type, name)).some(file => where.test(file)))
    .sort()
}

test('every option of open() is read where it has its effect, and not only where it is checked', () => {
  const project = projectOf('packages/client')
  // What apps pass, what maps share a session by, and what a session gets.
  const way = [
    ['options.ts', 'OpenOptions'],
    ['options.ts', 'Wishes'],
    ['session/opening.ts', 'SessionParts'],
  ] as const
  const unread = unreadOf(project, /src\/(?!options|estimate|testing\/)/, ...way)
  // `integrity` allows what the check refuses. A package is read by the name of its proofs.
  expect(unread, 'read the option where it has its effect, or delete it').toEqual(['integrity', ...PACKAGED])
})

test('every option of fakeMap() is read', () => {
  const unread = unreadOf(projectOf('packages/client'), /testing\/fake/, ['testing/fake-map.ts', 'FakeOptions'])
  expect(unread, "read the option in testing/, or say 0 in option-table.ts's column for fakeMap").toEqual([])
})

test("every option of open() has a row in the client's README", () => {
  const readme = textOf('packages/client/README.md')
  const rowless = Object.keys(OPTIONS).filter(
    option => !new RegExp(`^\\| [^|]*\`${option}\`[^|]* \\|`, 'm').test(readme),
  )
  expect(rowless, 'add a row to packages/client/README.md').toEqual([])
})

test('every flag of every command is read', () => {
  const project = projectOf('server')
  const cli = textOf('server/src/cli.ts')
  const planner = textOf('rust-core/wasm/src/mode_costs.rs')
  const reference = textOf('docs/operations/reference.md') // it has all flags: server/test/flags.test.ts
  const calls = nodesOf(project, 'server/src/cli.ts').filter(isCallExpression)
  const unread: string[] = []
  let commands = 0
  // Each action hands its flags, `options`, to a function.
  for (const call of calls) {
    const place = call.arguments.findIndex(({ pos, end }) => /^[^(]*\boptions\W*$/.test(cli.slice(pos, end)))
    const command = [...cli.slice(0, call.end).matchAll(/\.command\('(\w+)/g)].at(-1)?.[1]
    const [, section] = reference.split(`\n## ${command}\n`) // those of `ceremony` have another title: a package reads their flags
    if (place < 0 || section === undefined) continue
    commands += 1
    const flags = [...section.split('\n## ')[0]!.matchAll(/^ {2}--(?:no-)?([a-z-]+)/gm)].map(([, flag]) => flag!)
    const type = project.checker.getParameterType(project.checker.getResolvedSignature(call)!, place)!
    for (const flag of flags) {
      const name = flag.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())
      const isRead = readersOf(project, type, name).length > 0 || (command === 'plan' && planner.includes(`"${name}"`))
      if (!isRead) unread.push(`${command} --${flag}`)
    }
  }
  expect(commands).toBe(reference.match(/^## [a-z]+$/gm)!.length)
  expect(unread, 'read the flag where it has its effect, or delete it').toEqual([])
})
