// A thread of connections that ask a server for all that they may, and read nothing; whoever is hung up on connects again.
// They come from as many networks as there are connections, as those of someone who has hired machines do.
//
//   new Worker(…, { workerData: { url, request, times, connections } })     posts 'there' when all have asked

import { connect } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

const AGAIN_MS = 100
const { url, request, times, connections } = workerData
const { hostname, port } = new URL(url)
const asking = Buffer.concat(Array(times).fill(Buffer.from(request)))
let there = 0

const ask = (network, told) => {
  // Linux has all of 127.0.0.0/8.
  const socket = connect({ host: hostname, port: Number(port), localAddress: `127.0.${network}.1` })
  socket.on('error', () => {})
  socket.once('connect', () => {
    socket.pause()
    socket.write(asking)
    if (told && ++there === connections) parentPort.postMessage('there')
  })
  socket.once('close', () => setTimeout(ask, AGAIN_MS, network, false))
}
// Sockets that neither read nor write keep no thread alive.
parentPort.on('message', () => {})
for (let i = 0; i < connections; i++) ask(1 + (i % 250), true)
