// Types of packages.mjs, for tests in TypeScript.

/** Of package.json, as far as somebody looks at it; whatever that JSON is. */
// biome-ignore lint/suspicious/noExplicitAny: the form is npm's
type Json = any

export declare function readJson(file: string): Json
export declare function workspaces(folder: string): string[]
export declare function published(folder: string): string[]
export declare function faultsOf(manifest: Json, root: Json): string[]
