// The progress of a download.

/** The progress of a download. It is reported once the length of the download is known. */
export interface Progress {
  readonly phase: 'directory' | 'partitions' | 'ready'
  /** Useful bytes received so far. They can become fewer when another server takes over. */
  readonly loadedBytes: number
  /** Bytes of the whole download. Never 0. */
  readonly totalBytes: number
}

/** Called when a phase begins, and after each hundredth of the download. */
export type OnProgress = (progress: Progress) => void

const STEPS = 100

export class ProgressMeter {
  #progress: Progress = { phase: 'directory', loadedBytes: 0, totalBytes: 0 }
  #told: Progress | undefined
  readonly #listeners: readonly OnProgress[]

  constructor(...listeners: readonly [OnProgress, ...OnProgress[]]) {
    this.#listeners = listeners
  }

  phase(phase: Progress['phase']): void {
    this.#progress = { ...this.#progress, phase }
    this.#tell()
  }

  /** A download of so many bytes begins, or begins again. */
  expect(totalBytes: number): void {
    this.#progress = { ...this.#progress, loadedBytes: 0, totalBytes }
    this.#told = undefined
  }

  /** `bytes` more, or fewer if negative. */
  add(bytes: number): void {
    const { loadedBytes, totalBytes } = this.#progress
    this.#progress = { ...this.#progress, loadedBytes: loadedBytes + bytes }
    const since = Math.abs(this.#progress.loadedBytes - (this.#told?.loadedBytes ?? 0))
    if (since >= totalBytes / STEPS || this.#progress.loadedBytes === totalBytes) this.#tell()
  }

  #tell(): void {
    if (this.#progress.totalBytes === 0) return
    this.#told = this.#progress
    for (const listener of this.#listeners) listener(this.#progress)
  }
}
