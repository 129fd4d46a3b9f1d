// Replace these lines by those that `keyhush dev` prints. A phone needs this machine's address: see --host.
export const servers = ['http://127.0.0.1:8801', 'http://127.0.0.1:8802']
export const publisherKey = '0000000000000000000000000000000000000000000000000000000000000000'
