// Compiles packages/pointproofs/rust/wasm to WebAssembly and leaves it in packages/pointproofs/generated/, twice: `pointproofs`, for
// who verifies such proofs or takes part in a ceremony, and beside it as a string; and `prover`, the same with what servers
// prove with. The product does without: only what tests, checks or packs this package builds it.
import { join } from 'node:path'
import { buildCrate, inGenerated, inline } from './build-wasm.mjs'

const folder = 'packages/pointproofs/generated'
export const pointproofsOutputs = [
  ...['pointproofs.js', 'pointproofs.d.ts', 'pointproofs_bg.wasm', 'inline.js', 'inline.d.ts'],
  ...['prover.js', 'prover.d.ts', 'prover_bg.wasm'],
].map(name => `${folder}/${name}`)

/** Builds both, with the tools in the folder `bin`. */
export async function buildPointproofs(bin) {
  await inGenerated(folder, async fresh => {
    const from = 'packages/pointproofs/rust'
    await buildCrate(bin, fresh, from, 'pointproofs', [])
    await buildCrate(bin, fresh, from, 'prover', ['--features', 'prover'])
    inline(join(fresh, 'pointproofs_bg.wasm'), join(fresh, 'inline'))
  })
}
