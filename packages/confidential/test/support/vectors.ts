// The shared vectors of confidential databases, `tests/interop/vectors/confidential.json`; about.json there says what they mean.

export interface ConfidentialVectors {
  readonly list: {
    readonly secret: string
    readonly evaluationKey: string
    readonly databaseId: string
    readonly valueBytes: number
    readonly entries: readonly {
      readonly key: string
      readonly value: string
      readonly fresh: string
      readonly input: string
      readonly evaluated: string
      readonly listKey: string
      readonly sealed: string
    }[]
    readonly refused: readonly { readonly because: string; readonly evaluated: string; readonly sealed: string }[]
  }
  readonly priced: {
    readonly secret: string
    readonly databaseId: string
    readonly valueBytes: number
    readonly entries: readonly {
      readonly key: string
      readonly value: string
      readonly fresh: string
      readonly asked: string
      readonly evaluated: string
      readonly sealed: string
    }[]
    readonly unlock: {
      readonly asked: string
      readonly entropy: string
      readonly token: string
      readonly deal: number
      readonly shares: readonly string[]
      readonly request: string
      readonly replies: readonly string[]
    }
  }
  readonly evaluations: readonly {
    readonly evaluators: number
    readonly atLeast: number
    readonly coefficients: readonly string[]
    readonly shares: readonly string[]
    readonly deal: number
    readonly keys: readonly string[]
    readonly token: string
    readonly entropy: string
    readonly blinds: readonly string[]
    readonly checks: readonly string[]
    readonly checkBlind: string
    readonly request: string
    readonly replies: readonly string[]
    readonly sets: readonly {
      readonly numbers: readonly number[]
      readonly scale: number
      readonly weights: readonly number[]
    }[]
    readonly outputs: readonly string[]
    readonly lies: readonly { readonly because: string; readonly replies: readonly string[] }[]
  }[]
  readonly refused: readonly {
    readonly kind: 'request' | 'reply'
    readonly because: string
    readonly bytes: string
  }[]
}

/** Bytes in hexadecimal, with those from `at` replaced. */
export function put(bytes: string, at: number, by: string): string {
  return bytes.slice(0, 2 * at) + by + bytes.slice(2 * at + by.length)
}
