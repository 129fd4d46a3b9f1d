// Proves partitions with the command rust/prover, in a process each: several times as fast as threads.

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { BuildError, VERSION } from '@keyhush/server/proofs'
import type { Shape } from '../api.js'

/** Proves one partition at a time. */
export class NativeProver {
  readonly #command: string
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  /** of a partition's row list and openings */
  readonly #bytes: number
  /** output that is not read yet, and the reader that waits for more */
  readonly #written: Buffer[] = []
  #length = 0
  #waiting: { readonly bytes: number; resolve(): void; reject(error: Error): void } | undefined
  #failure: BuildError | undefined
  #greeted = false

  /** `bytes`: of a partition's row list and openings. */
  constructor(command: string, setup: Uint8Array, shape: Shape, bytes: number) {
    this.#command = command
    this.#bytes = bytes
    this.#child = spawn(command, [], { stdio: ['pipe', 'pipe', 'inherit'] })
    const fail = (reason: string) => {
      this.#failure ??= new BuildError(reason, command)
      this.#waiting?.reject(this.#failure)
      this.#waiting = undefined
    }
    this.#child.on('error', (error: NodeJS.ErrnoException) => fail(`cannot be run (${error.code})`))
    this.#child.on('close', (code, signal) => fail(`it has ended with ${signal ?? `code ${code}`}`))
    this.#child.stdin.on('error', () => {}) // the process has ended, which 'close' reports
    this.#child.stdout.on('data', (bytes: Buffer) => {
      this.#written.push(bytes)
      this.#length += bytes.length
      if (this.#waiting === undefined || this.#length < this.#waiting.bytes) return
      this.#waiting.resolve()
      this.#waiting = undefined
    })
    const numbers = Uint32Array.of(shape.partitions, shape.partitionRecords, shape.recordBytes)
    this.#child.stdin.write(Buffer.concat([setup, littleEndian(numbers)]))
  }

  /** Throws BuildError, naming the command. */
  async do({ q, partition }: { readonly q: number; readonly partition: Uint8Array }): Promise<Uint8Array> {
    if (!this.#greeted) {
      const greeting = `keyhush-prover ${VERSION}\n`
      const said = await this.#read(greeting.length)
      if (said.toString() !== greeting) {
        throw new BuildError(
          `it is not the prover of version ${VERSION}; compile it from the same source`,
          this.#command,
        )
      }
      this.#greeted = true
    }
    this.#child.stdin.write(Buffer.concat([littleEndian(Uint32Array.of(q)), partition]))
    const proved = await this.#read(this.#bytes)
    if (proved.length > this.#bytes) throw new BuildError('it has said more than was asked', this.#command)
    return proved
  }

  /** Ends the process once it is done. */
  giveBack(): void {
    this.#child.stdin.end()
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }

  /** All its output, once that has so many bytes. */
  async #read(bytes: number): Promise<Buffer> {
    if (this.#length < bytes) {
      if (this.#failure !== undefined) throw this.#failure
      await new Promise<void>((resolve, reject) => {
        this.#waiting = { bytes, resolve, reject }
      })
    }
    this.#length = 0
    return Buffer.concat(this.#written.splice(0))
  }
}

function littleEndian(numbers: Uint32Array): Buffer {
  const bytes = Buffer.alloc(4 * numbers.length)
  for (const [n, number] of numbers.entries()) bytes.writeUInt32LE(number, 4 * n)
  return bytes
}
