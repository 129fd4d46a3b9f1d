// Types of index.mjs, for tests in TypeScript.
export interface SiteOptions {
  readonly to: string
  readonly from?: string
  readonly files?: readonly string[]
  readonly reference?: boolean
  readonly base?: string
}
export declare function buildSite(options: SiteOptions): Promise<number>

export declare function faultsOf(folder: string, base?: string): { pages: number; faults: string[] }

export interface Site {
  readonly routes: ReadonlyMap<string, string>
  readonly downloads: ReadonlySet<string>
  exists(path: string): boolean
}
export interface Destination {
  readonly href?: string
  readonly download?: string
  readonly source?: string
}
export declare function destinationOf(href: string, page: string, site: Site): Destination | undefined
export declare function repositoryUrl(packageJson: { repository?: string | { url: string } }): string | undefined
export declare function routesOf(paths: readonly string[]): Map<string, string>
export declare function titleOf(markdown: string, otherwise: string): string

export interface Item {
  readonly text: string
  readonly link?: string
  readonly items?: readonly Item[]
}
export declare function sidebarsOf(
  pages: readonly { path: string; route: string; title: string }[],
  mentions: readonly string[],
): Record<string, Item[]>
