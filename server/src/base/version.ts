// This software's name and version, as `/v1/info` and `--version` give it.

/** The root's package.json has it, and `npm run release` writes it here: an app may be bundled, without that file. */
export const VERSION = '0.1.0'
export const SOFTWARE = `keyhush/${VERSION}`
