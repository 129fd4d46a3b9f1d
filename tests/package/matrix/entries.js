// The package's other entries: what each finds under `otter`.

import { open } from '@keyhush/client/instant'
import { fakeMap } from '@keyhush/client/testing'

export const entries = [
  async servers => {
    const map = await open({ servers })
    return await map.getText('otter').finally(() => map.close())
  },
  () => fakeMap({ otter: 'river' }).getText('otter'),
]
