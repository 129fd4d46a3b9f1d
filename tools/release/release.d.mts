// Types of release.mjs, for tests in TypeScript.
export declare function release(args: readonly string[]): Promise<void>
export declare function checkVersion(version: string, tags: readonly string[]): void
export declare function readChanges(changelog: string, version: string): string
export declare function dated(changelog: string, version: string, date: Date): string
