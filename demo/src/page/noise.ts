// Draws bytes as a picture: one square for each byte, the darker the larger its value.

import type { ServerName } from './backstage.js'
import { count, element } from './format.js'
import type { Exchange } from './wire/recorder.js'

/** of all pictures */
export const STRIPES =
  'The empty stripes are headers: which list, and which version of it. They are the same for everybody.'

/** A figure with everything that a server was sent. */
export function noise(server: ServerName, exchanges: readonly Exchange[]): HTMLElement {
  const bytes = exchanges.filter(exchange => exchange.server === server).flatMap(({ sent }) => [...sent])
  return figureOf(server, `Server ${server} saw this`, bytes)
}

/** A figure with everything that a server replied. */
export function noiseBack(server: ServerName, exchanges: readonly Exchange[]): HTMLElement {
  const ofIt = exchanges.filter(exchange => exchange.server === server)
  return figureOf(
    server,
    `Server ${server} replied this`,
    ofIt.flatMap(({ reply }) => [...(reply?.bytes ?? [])]),
  )
}

function figureOf(server: ServerName, title: string, bytes: readonly number[]): HTMLElement {
  const size = count(bytes.length, 'byte')
  const canvas = element('canvas', { role: 'img', 'aria-label': `${size} that look random` })
  const name = element('strong', {}, title)
  const figure = element(
    'figure',
    { class: `noise ${server.toLowerCase()}` },
    canvas,
    element('figcaption', {}, name, ` ${size}`),
  )
  // The colour is known once the figure is in the document.
  queueMicrotask(() => draw(canvas, bytes))
  return figure
}

function draw(canvas: HTMLCanvasElement, bytes: readonly number[]): void {
  const columns = Math.max(1, Math.ceil(Math.sqrt(2 * bytes.length)))
  canvas.width = columns
  canvas.height = Math.max(1, Math.ceil(bytes.length / columns))
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(canvas).color.match(/\d+/g) ?? []).map(Number)
  const image = new ImageData(canvas.width, canvas.height)
  for (const [i, byte] of bytes.entries()) image.data.set([red, green, blue, byte], 4 * i)
  canvas.getContext('2d')?.putImageData(image, 0, 0)
}
