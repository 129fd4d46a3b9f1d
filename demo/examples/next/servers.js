// Put here what `keyhush dev` prints.
export const servers = ['http://127.0.0.1:41231', 'http://127.0.0.1:38123']
export const publisherKey = undefined
