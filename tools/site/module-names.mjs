// A plugin of TypeDoc: calls each module by what apps import (`@keyhush/client/instant`).
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Comment, Converter, ReflectionKind } from 'typedoc'

const root = fileURLToPath(new URL('../..', import.meta.url))

export function load(app) {
  app.converter.on(Converter.EVENT_CREATE_DECLARATION, (_, reflection) => {
    if (!reflection.kindOf(ReflectionKind.Module)) return
    const { name, isMain } = importOf(reflection.name)
    reflection.name = name
    if (!isMain) return
    // What other modules export too is described in the package's main one.
    reflection.comment ??= new Comment()
    reflection.comment.modifierTags.add('@primaryExport')
  })
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
