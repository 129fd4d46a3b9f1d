// `@keyhush/pointproofs` as an app hands it over, for what may run where it has not been built.

import type { LoadProofs } from '@keyhush/client'

export const pointproofs: LoadProofs = () => import('@keyhush/pointproofs' as string)
