// Servers asked as fast as they answer, by a process that costs little (rust-core/load).

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Question } from './overload.js'

const command = fileURLToPath(new URL('../../rust-core/target/release/keyhush-load', import.meta.url))

/** Keeps `connections` requests under way at each URL for `milliseconds`; returns how many were answered. Throws if a reply is wrong. */
export async function askAll(
  urls: readonly string[],
  questions: readonly Question[],
  { connections, milliseconds }: { readonly connections: number; readonly milliseconds: number },
): Promise<number> {
  const numbers = [connections, milliseconds].map(String)
  const asking = spawn(command, [...numbers, ...urls.map(url => new URL(url).host)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(asking, 'close')
  for (const piece of questions.flatMap(({ request, answer }) => [request, answer])) {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(piece.length)
    asking.stdin.write(length)
    asking.stdin.write(piece)
  }
  asking.stdin.end()
  const said = await text(asking.stdout)
  const [code] = await ended
  if (code !== 0) throw new Error(`keyhush-load ended with ${code}`)
  return Number(said)
}
