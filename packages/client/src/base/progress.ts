// How far the offline phase has come.

export interface Progress {
  readonly phase: 'manifest' | 'directory' | 'partitions' | 'ready'
  /** bytes of use received so far; falls back when a server has to be replaced */
  readonly loadedBytes: number
  /** 0 until the manifest is known */
  readonly totalBytes: number
}

export type OnProgress = (progress: Progress) => void

/** Tells of bytes as `download` receives them, and takes them back if it fails. */
export async function counted<T>(
  told: (bytes: number) => void,
  download: (received: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  let all = 0
  try {
    return await download(bytes => {
      all += bytes
      told(bytes)
    })
  } catch (error) {
    told(-all)
    throw error
  }
}

export class ProgressMeter {
  #progress: Progress = { phase: 'manifest', loadedBytes: 0, totalBytes: 0 }
  readonly #onProgress: OnProgress

  /** `onProgress`: who is to hear of it, if anybody is */
  constructor(onProgress: OnProgress = () => {}) {
    this.#onProgress = onProgress
  }

  phase(phase: Progress['phase']): void {
    this.#report({ ...this.#progress, phase })
  }

  /** A download of so many bytes begins, or begins again with what there is. */
  expect(totalBytes: number): void {
    this.#progress = { ...this.#progress, loadedBytes: 0, totalBytes }
  }

  /** `bytes` more, or fewer if negative. */
  add(bytes: number): void {
    this.#report({ ...this.#progress, loadedBytes: this.#progress.loadedBytes + bytes })
  }

  #report(progress: Progress): void {
    this.#progress = progress
    this.#onProgress(progress)
  }
}
