// How long the main thread is busy with a request, told by a ratio within one run.

import { performance } from 'node:perf_hooks'
import { expect } from 'vitest'

/** How many times as long the main thread is busy with one kind of request as with another, its client included. */
export async function busyRatio(url: string, one: () => Uint8Array, other: () => Uint8Array): Promise<number> {
  const busy = async (body: Uint8Array) => {
    const start = performance.eventLoopUtilization()
    const reply = await fetch(url, { method: 'POST', body: new Uint8Array(body) })
    await reply.arrayBuffer()
    expect(reply.status).toBe(200)
    return performance.eventLoopUtilization(start).active
  }
  const least = async (body: () => Uint8Array) => {
    const times: number[] = []
    for (let i = 0; i < 5; i++) times.push(await busy(body()))
    return Math.min(...times)
  }
  await busy(one())
  await busy(other())
  const ofOther = await least(other)
  return (await least(one)) / ofOther
}
