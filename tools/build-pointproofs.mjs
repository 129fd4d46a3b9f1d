// Compiles packages/pointproofs/rust/wasm to WebAssembly and leaves it in packages/pointproofs/generated/, twice: `pointproofs`, for
// who verifies such proofs or takes part in a ceremony, and beside it as a string; and `prover`, the same with what servers
// prove with. The product does without: only what tests, checks or packs this package builds it.
import { join } from 'node:path'
import { buildVariants, inGenerated, inline } from './build-wasm.mjs'

const folder = 'packages/pointproofs/generated'
export const pointproofsOutputs = [
  ...['pointproofs.js', 'pointproofs.d.ts', 'pointproofs_bg.wasm', 'inline.js', 'inline.d.ts'],
  ...['prover.js', 'prover.d.ts', 'prover_bg.wasm'],
].map(name => `${folder}/${name}`)

export async function buildPointproofs() {
  await inGenerated(folder, async fresh => {
    await buildVariants('packages/pointproofs/rust', fresh, { pointproofs: [], prover: ['--features', 'prover'] })
    inline(join(fresh, 'pointproofs_bg.wasm'), join(fresh, 'inline'))
  })
}
