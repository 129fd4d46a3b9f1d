// A worker that runs one server. It shares nothing with the other worker but the visitor's file.

import wasm from '@keyhush/wasm/core_bg.wasm?url'
import { loadServerCore } from '@keyhush/wasm/server'
import type { FromWorker, ToWorker } from './messages.js'
import { faultOf, OwnServer } from './server.js'

let server: OwnServer | undefined

const tell = (message: FromWorker) => postMessage(message)

async function build(csv: Uint8Array): Promise<void> {
  try {
    const core = await loadServerCore(() => fetch(wasm))
    server = OwnServer.build(core, csv, stage => tell({ stage }))
    tell({ built: server.built })
  } catch (error) {
    tell({ fault: faultOf(error) })
  }
}

addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  if ('build' in data) void build(data.build)
  else tell({ request: data.request, reply: server!.reply(data.path, data.body) })
})
