// Which options `open()` has (options.ts), and where else each is one.

const COLUMNS = { instant: 0, native: 1, estimate: 2, fakeMap: 3 } as const
type Entry = keyof typeof COLUMNS
type Row = readonly [instant: 0 | 1, native: 0 | 1, estimate: 0 | 1, fakeMap: 0 | 1]

/**
 * Every option, and where else it is one: in `@keyhush/client/instant`, in packages for other platforms, in `estimate()` and in `fakeMap()`. A
 * new one does not compile before each is answered. The hooks take those of their `open()`.
 */
export const OPTIONS = {
  servers: [1, 1, 0, 0],
  publisherKey: [1, 1, 0, 0],
  witnesses: [1, 1, 0, 0],
  atLeast: [1, 1, 1, 0],
  integrity: [0, 0, 0, 0],
  collusion: [0, 0, 1, 0],
  mode: [0, 0, 0, 1],
  experimental: [0, 0, 1, 0],
  filter: [0, 0, 0, 1],
  download: [0, 0, 1, 0],
  network: [0, 0, 0, 0],
  storage: [0, 0, 0, 0],
  signal: [1, 1, 1, 0],
  timeoutMs: [1, 1, 1, 1],
  onEvent: [1, 1, 0, 1],
  onProgress: [0, 0, 0, 0],
  normalize: [1, 1, 0, 1],
  push: [1, 0, 0, 0],
  fetch: [1, 1, 1, 0],
  store: [0, 0, 0, 0],
  wasm: [1, 0, 0, 0],
  development: [1, 1, 1, 0],
  proofs: [0, 0, 1, 0],
  rollback: [0, 0, 0, 0],
  lookups: [0, 0, 0, 0],
} as const satisfies Record<string, Row>

export type OptionName = keyof typeof OPTIONS

/** The names of the options that an entry has, too. */
export type OptionOf<E extends Entry> = {
  [N in OptionName]: (typeof OPTIONS)[N][(typeof COLUMNS)[E]] extends 1 ? N : never
}[OptionName]

/** The same, as values. */
export function optionsOf(entry: Entry): string[] {
  return Object.entries(OPTIONS).flatMap(([name, row]) => (row[COLUMNS[entry]] === 1 ? [name] : []))
}
