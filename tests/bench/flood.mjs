// A thread that keeps the queue of instant lookups full, and asks again when it is refused. It is a thread of its own, so that the lookups
// that are measured beside it do not wait for it.
//
//   new Worker(…, { workerData: { url, body, requests, pauseMs } })     posts a message when it is first refused; ends when it gets one

import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'

const { url, body, requests, pauseMs } = workerData
let refused = 0
let over = false
parentPort.once('message', () => {
  over = true
})

const client = async () => {
  while (!over) {
    const response = await fetch(url, { method: 'POST', body })
    await response.arrayBuffer()
    if (response.status === 200) continue
    if (response.status !== 503) throw new Error(`expected status 200 or 503, got ${response.status}`)
    if (refused++ === 0) parentPort.postMessage('full')
    await pause(pauseMs)
  }
}
await Promise.all(Array.from({ length: requests }, client))
