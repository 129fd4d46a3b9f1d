// Types of browsers.mjs, for tests in TypeScript.
import type { Browser } from 'puppeteer-core'

export type BrowserName = 'chromium' | 'firefox'
export declare function findBrowser(name: BrowserName | 'webkit' | 'web view' | 'xvfb'): Promise<string>
export declare const OTHER_HOST: string
export interface BrowserOptions {
  readonly profile?: string
  readonly preferences?: Readonly<Record<string, unknown>>
  readonly hosts?: readonly string[]
  readonly extensions?: boolean
  readonly protocolTimeout?: number
  readonly small?: boolean
  readonly unwatched?: boolean
}
export declare function launchBrowser(name: BrowserName, options?: BrowserOptions): Promise<Browser>
