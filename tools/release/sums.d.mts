// Types of sums.mjs, for tests in TypeScript.
export declare function listSums(title: string, tarballs: Readonly<Record<string, string>>): Promise<string>
export declare function signFile(file: string, seed: Uint8Array): void
