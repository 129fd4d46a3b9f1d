// Put here what `keyhush dev` prints, for a list with the lines `otter,river` and `heron,shore`. `npm run matrix` puts its own.
export const servers = ['http://127.0.0.1:41231', 'http://127.0.0.1:38123']
export const publisherKey = undefined
