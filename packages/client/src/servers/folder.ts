// A folder of files in the place of a server (docs/protocol.md, Without a server). Its host ignores what stands behind `?` in a URL.
// Caches may send files of different ages. The map uses an epoch that the files agree on.

import { type EpochInfo, EVENT_BYTES, type Info, toHex } from '@keyhush/protocol'
import { OVER, scoped } from '../base/abort.js'
import { EVENTS_PAUSE_MS, EVENTS_SILENCE_MS, FOLDER_MS } from '../base/constants.js'
import { ServerError } from '../base/errors.js'
import { inCore } from '../platform/core.js'
import { askOne, sleep } from './ask.js'
import { type Read, subscribe } from './events.js'
import { infoOf } from './info.js'
import { type Agreed, compareEpochs, manifestAt, pathOf } from './manifests.js'
import { ofTwoAges, piecesAfter } from './path.js'
import { type Following, findTarget, type Looking, newestIn, type Target } from './target.js'
import { type Link, readStream } from './transport.js'

/**
 * What a folder shows, but that its epochs are such whose manifests came; these are put into `files`, by their hashes. `base`: where the map
 * is. `early`: the newest manifest, if it was asked for already. Throws VersionError.
 */
async function shownInFolder(
  link: Link,
  said: Info,
  { core, signing }: Following,
  base: Agreed | undefined,
  early: Promise<Agreed> | undefined,
  files: Map<string, Promise<Agreed>>,
  signal: AbortSignal,
): Promise<Info> {
  const hashOf = ({ bytes }: Agreed) => toHex(inCore(core, () => core.blake3(bytes)))
  const came: EpochInfo[] = []
  const take = (file: Agreed | undefined) => {
    if (file === undefined || toHex(file.manifest.databaseId) !== said.database) return
    const { generation, epoch } = file.manifest
    const manifest = hashOf(file)
    came.push({ generation, epoch, manifest })
    files.set(manifest, Promise.resolve(file))
  }
  const hasCome = ({ manifest }: EpochInfo) => came.some(each => each.manifest === manifest)

  if (base && hashOf(base) === said.epochs.at(-1)?.manifest) return said
  take(await early?.catch(() => undefined))
  let info = said
  const isBehind = came.some(each => compareEpochs(each, newestIn(info)) > 0)
  if (isBehind) info = await infoOf(link, signal, `/v1/info?epoch=${came[0]!.epoch}`) // a URL that caches do not know yet
  const last = info.epochs.at(-1)
  if (last === undefined) return info
  if (!hasCome(last)) take(await manifestAt(link, pathOf(last), signal))
  const isShown = (each: EpochInfo) =>
    signing === undefined
      ? info.epochs.some(({ manifest }) => manifest === each.manifest)
      : info.signatures.some(of => signing.counts(of) && compareEpochs(of, each) === 0)
  // While the newest waits for its witnesses, the one before is looked for.
  if (hasCome(last) && isShown(last)) return info
  for (const file of (await piecesAfter(link, 0, {}, signal)) ?? []) take(file)
  const [newest] = came.filter(isShown).sort((a, b) => compareEpochs(b, a))
  if (newest !== undefined) return { ...info, epochs: [newest] }
  if (hasCome(last)) return info
  throw ofTwoAges(link)
}

/** findTarget() of servers and folders. */
export async function lookAt(
  following: Following,
  base: Agreed | undefined,
  looking: Looking,
  signal: AbortSignal,
): Promise<Target> {
  const files = new Map<string, Promise<Agreed>>()
  const take = async (link: Link, signal: AbortSignal): Promise<Info> => {
    const { name } = link.server
    const info = await (looking.heard?.take(link, signal) ?? infoOf(link, signal))
    noteLook(link)
    if (!isFolder(link)) return info
    return await shownInFolder(link, info, following, base, looking.manifests?.get(name), files, signal)
  }
  const manifests = {
    get: (server: string, shown: EpochInfo) => files.get(shown.manifest) ?? looking.manifests?.get(server, shown),
  }
  return await findTarget(following, base, { ...looking, heard: { take }, manifests }, signal)
}

/** Whether a server is a folder, as it said last. */
export function isFolder({ server, standing }: Link): boolean {
  const offers = standing.offers.get(server.name)
  return offers !== undefined && isFolderWith(offers)
}

/** Whether a server that offers this is a folder: it has updates, and nobody tells of them. */
export function isFolderWith({ updates, push }: Info['offers']): boolean {
  return updates && !push
}

function noteLook(link: Link): void {
  link.standing.noteLook(link, link.environment.clock.now())
}

/** To a server's stream, or to a folder's line, which is asked for now and then. What it is may change. */
export const listenTo: typeof subscribe = async (link, tabs, notify, signal) => {
  while (!signal.aborted) {
    try {
      if (!link.standing.offers.has(link.server.name)) {
        await askOne([link], { outlasts: true }, signal, (link, signal) => infoOf(link, signal))
        noteLook(link)
      }
      const wasFolder = isFolder(link)
      await subscribe(link, tabs, notify, signal, wasFolder ? readLine : undefined)
      if (!wasFolder && !isFolder(link)) return
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof ServerError)) throw error
      await sleep(link.environment.clock, EVENTS_PAUSE_MS, signal)
    }
  }
}

/** Reads a folder's line each time that FOLDER_MS have passed since a tab asked it last, until it is no folder any more. */
const readLine: Read = async (link, take, signal) => {
  const { clock } = link.environment
  while (isFolder(link) && !signal.aborted) {
    const left = link.standing.lookedAt(link) + FOLDER_MS - clock.now()
    if (left > 0) {
      await sleep(clock, left, signal)
      continue
    }
    noteLook(link)
    try {
      const line = await askOne([link], { outlasts: true }, signal, firstLine)
      if (line !== undefined) take(line, () => {})
    } catch (error) {
      if (!(error instanceof ServerError) && !signal.aborted) throw error
    }
  }
}

/** Also of a stream, which has more. Undefined: the file is cut. */
async function firstLine(link: Link, signal: AbortSignal): Promise<string | undefined> {
  const over = new AbortController()
  let line: string | undefined
  const take = (bytes: Uint8Array) => {
    line ??= new TextDecoder().decode(bytes)
    over.abort(OVER)
  }
  const read = scoped([signal, over.signal], signal =>
    readStream(link, '/v1/events', EVENT_BYTES, EVENTS_SILENCE_MS, take, signal, false),
  )
  await read.catch(error => {
    if (line === undefined) throw error
  })
  return line
}
