// What tests take from this folder.
export { buildSite } from './build.mjs'
export { faultsOf } from './check.mjs'
export { destinationOf, repositoryUrl, routesOf, titleOf } from './pages.mjs'
export { sidebarsOf } from './sidebar.mjs'
