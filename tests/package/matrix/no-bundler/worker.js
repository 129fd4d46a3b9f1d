import { open } from '../node_modules/@keyhush/client/dist/keyhush.js'
import { probe } from '../probe.js'

probe(open).then(postMessage, error => postMessage(`failed: ${error}`))
