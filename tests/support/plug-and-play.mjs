// What Yarn's Plug'n'Play changes in a process that imports this first: file handles lack methods, and a package that the app has not
// named is refused in other words than Node's.

import { open } from 'node:fs/promises'
import { register } from 'node:module'

const file = await open(process.execPath)
await file.close()
Object.getPrototypeOf(file).sync = async () => {
  throw new Error('Method not implemented.')
}

const refuses = `export async function resolve(name, context, next) {
  if (name !== 'fs-native-extensions') return await next(name, context)
  const words = "@keyhush/client tried to access fs-native-extensions (a peer dependency) but it isn't provided by your application"
  throw Object.assign(new Error(words), { code: 'MODULE_NOT_FOUND' })
}`
register(`data:text/javascript,${encodeURIComponent(refuses)}`)
