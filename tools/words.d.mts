// Types of words.mjs, for tests in TypeScript.
export interface Sentence {
  readonly line: number
  readonly words: number
  readonly text: string
}
export interface Limit {
  readonly what: string
  readonly paths: RegExp
  readonly long: number
  readonly words?: number
}
export declare const LONG: number
export declare const limits: readonly Limit[]
export declare function countWords(markdown: string): number
export declare function sentencesOf(markdown: string): Sentence[]
export declare function overLimits(documents: Readonly<Record<string, string>>, rows?: readonly Limit[]): string[]
