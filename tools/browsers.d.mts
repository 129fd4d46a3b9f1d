// Types of browsers.mjs, for tests in TypeScript.
import type { Browser } from 'puppeteer-core'

export type BrowserName = 'chromium' | 'firefox'
export declare function findBrowser(name: BrowserName): Promise<string>
export declare function launchBrowser(name: BrowserName): Promise<Browser>
