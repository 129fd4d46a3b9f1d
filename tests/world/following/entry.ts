// What is loaded anew for each mutant (mutants.ts).

export { live } from './life.js'
export { runAll } from './plays.js'
export { grounds, leaveGrounds } from './stage.js'

/** Records the lives of a file that are written by hand. */
export const load = (file: string): Promise<unknown> => import(`./${file}`)
