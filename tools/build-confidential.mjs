// Compiles packages/confidential/rust/wasm to WebAssembly, into packages/confidential/generated/, for owners and evaluators.
import { buildVariants, inGenerated } from './build-wasm.mjs'

const folder = 'packages/confidential/generated'
export const confidentialOutputs = ['evaluation.js', 'evaluation.d.ts', 'evaluation_bg.wasm'].map(
  name => `${folder}/${name}`,
)

export async function buildConfidential() {
  await inGenerated(folder, fresh => buildVariants('packages/confidential/rust', fresh, { evaluation: [] }))
}
