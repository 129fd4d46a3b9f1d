export interface WebKit {
  goto(url: string): Promise<void>
  reload(): Promise<void>
  back(): Promise<void>
  /** Runs a function in the page; parameters and result are JSON. */
  evaluate<P extends unknown[], R>(work: (...parameters: P) => R | Promise<R>, ...parameters: P): Promise<R>
  close(): Promise<void>
}

export function launchWebKit(): Promise<WebKit>
