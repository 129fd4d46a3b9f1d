// `@keyhush/pointproofs` as an app passes it to open(), for programs that also run where it is not built.

import type { LoadProofs } from '@keyhush/client'

export const pointproofs: LoadProofs = () => import('@keyhush/pointproofs' as string)
