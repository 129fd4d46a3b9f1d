export interface WebKitWindow {
  goto(url: string): Promise<void>
  reload(): Promise<void>
  back(): Promise<void>
  /** Runs a function in the page; parameters and result are JSON. */
  evaluate<P extends unknown[], R>(work: (...parameters: P) => R | Promise<R>, ...parameters: P): Promise<R>
}

/** A window whose page has a process of its own. */
export interface OwnWindow extends WebKitWindow {
  /** stops the process, as iOS does to a page in the background, or lets it go on */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void
  kill(): Promise<void>
}

/** Commands go to its first window. */
export interface WebKit extends WebKitWindow {
  open(url: string): Promise<OwnWindow>
  close(): Promise<void>
}

export function launchWebKit(): Promise<WebKit>
export function postedInWebView(folder: string): Promise<string>
