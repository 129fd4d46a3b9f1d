// A thread that sends a server one lookup after the other, some milliseconds apart, and says how long each waited: what a
// client sees of whatever else the server does. It is a thread of its own, for who publishes has a batch to send.
//
//   new Worker(…, { workerData: url })     what is posted to it is sent from then on; it posts the waits until then, ms each

import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'

const APART_MS = 2
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
let waits = []
let [body] = await once(parentPort, 'message')
parentPort.postMessage(waits)
parentPort.on('message', next => {
  body = next
  parentPort.postMessage(waits)
  waits = []
})

const ask = () =>
  new Promise((resolve, reject) => {
    const asked = request(`${workerData}/v1/answer`, { method: 'POST', agent }, reply => {
      if (reply.statusCode !== 200) reject(new Error(`a lookup was answered with ${reply.statusCode}`))
      reply.on('end', resolve).on('error', reject).resume()
    })
    asked.on('error', reject).end(body)
  })

for (;;) {
  const sent = performance.now()
  await ask()
  waits.push(performance.now() - sent)
  await pause(APART_MS)
}
