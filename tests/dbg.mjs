import { fileURLToPath } from 'node:url'
import { createServer } from 'vite'
const c = await createServer({ root: fileURLToPath(new URL('.', import.meta.url)), configFile:false, appType:'custom', logLevel:'silent', server:{middlewareMode:true, ws:false, watch:null} })
const { live } = await c.ssrLoadModule('/world/following/life.ts')
const { layGrounds } = await c.ssrLoadModule('/world/following/foundations.ts')
const { World } = await c.ssrLoadModule('/world/following/world.ts')
const g = await layGrounds()
const keep = setInterval(()=>{}, 1000)
let w
const begin = World.begin
World.begin = async (...a) => (w = await begin.call(World, ...a))
setTimeout(()=>{ console.log(w.trace.slice(-15).join('\n'), w.time.now, w.over, [...w.time.pendingWork?.() ?? []]); process.exit() }, 8000)
const o = await live(Number(process.argv[2]), g)
console.log('done', o.violations)
process.exit()
