// Types of version.mjs, for tests in TypeScript.
export declare function setVersion(folder: string, version: string): void
export declare function followers(folder: string): Map<string, string>
