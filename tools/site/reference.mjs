// A plugin of TypeDoc: calls each module by what apps import (`@keyhush/client/instant`), describes it by the
// comment that its file begins with, and keeps the classes in `@throws {Class}`.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Comment, CommentTag, Converter, ReflectionKind } from 'typedoc'
import ts from 'typescript'

const root = fileURLToPath(new URL('../..', import.meta.url))

export function load(app) {
  app.converter.on(Converter.EVENT_CREATE_DECLARATION, nameModule)
  const thrown = new Map()
  app.converter.on(Converter.EVENT_CREATE_SIGNATURE, (_, signature, declaration) => {
    const names = declaration === undefined ? [] : classesThrown(declaration)
    if (signature.comment !== undefined && names.length > 0) thrown.set(signature, names)
  })
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    const errors = project.getReflectionsByKind(ReflectionKind.Class | ReflectionKind.TypeAlias)
    const byName = new Map(errors.map(each => [each.name, each]))
    for (const [{ comment }, names] of thrown) listThrown(comment, names, byName)
  })
}

function nameModule(context, reflection) {
  if (!reflection.kindOf(ReflectionKind.Module)) return
  const file = context.getSymbolFromReflection(reflection).declarations[0].getSourceFile()
  const { name, isMain } = importOf(reflection.name)
  reflection.name = name
  reflection.comment ??= new Comment([{ kind: 'text', text: firstComment(file.text) }])
  // What other modules export too is described in the package's main one.
  if (isMain) reflection.comment.modifierTags.add('@primaryExport')
}

/** The lines of `//` that a file begins with, without the name of the module. */
function firstComment(text) {
  const lines = /^(\/\/.*\n)*/.exec(text)[0].split('\n')
  const comment = lines
    .map(line => line.replace(/^\/\/ ?/, ''))
    .join(' ')
    .replace(/^@[\w/]+: /, '')
    .trim()
  return comment.charAt(0).toUpperCase() + comment.slice(1)
}

/** The import of a source: its package's `exports` name what is compiled from it. `source`: from the root, `packages/client/src/node`. */
function importOf(source) {
  let folder = dirname(source)
  while (!existsSync(join(root, folder, 'package.json'))) folder = dirname(folder)
  const { name, exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  const module = source.slice(`${folder}/src`.length) || '/index'
  const found = Object.entries(exports).find(([, { types }]) => types === `./dist${module}.d.ts`)
  if (found === undefined) throw new Error(`${source} is no export of ${name}`)
  return { name: join(name, found[0]), isMain: found[0] === '.' }
}

/** The `Class` of each `@throws {Class}` of a declaration. TypeDoc leaves them out. */
function classesThrown(declaration) {
  const tags = ts.getJSDocTags(declaration).filter(({ tagName }) => tagName.text === 'throws')
  return tags.map(({ typeExpression }) => typeExpression?.type.getText())
}

/** Makes one list of all that is thrown. */
function listThrown(comment, names, byName) {
  const tags = comment.getTags('@throws')
  if (tags.length !== names.length) return // of an overload
  const content = tags.flatMap(({ content }, index) => {
    const name = names[index]
    const target = byName.get(name)
    const link = target && { kind: 'inline-tag', tag: '@linkcode', text: name, target }
    const shown = name === undefined ? [] : [link ?? { kind: 'code', text: `\`${name}\`` }, { kind: 'text', text: ' ' }]
    return [{ kind: 'text', text: `${index === 0 ? '' : '\n'}- ` }, ...shown, ...content]
  })
  const first = comment.blockTags.findIndex(({ tag }) => tag === '@throws')
  comment.removeTags('@throws')
  comment.blockTags.splice(first, 0, new CommentTag('@throws', content))
}
