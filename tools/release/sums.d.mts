// Types of sums.mjs, for tests in TypeScript.
import type { KeyObject } from 'node:crypto'

export declare function listSums(title: string, tarballs: Readonly<Record<string, string>>): Promise<string>
export declare function addSums(list: string, files: readonly string[]): void
export declare function readReleaseKey(file: string): KeyObject
export declare function signFile(file: string, key: KeyObject): void
