// Numbers and addresses in the arguments of commands.

import { InvalidArgumentError } from 'commander'

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

/** A parser of whole numbers within bounds. */
export function ranged(
  least: number,
  most: number,
  wrong = `It must be from ${least} to ${most}.`,
): (text: string) => number {
  return text => {
    const number = wholeNumber(text)
    if (number < least || number > most) throw new InvalidArgumentError(wrong)
    return number
  }
}

export const portNumber = ranged(0, 65_535)

export function address(text: string): { host: string; port: number } {
  const [, bracketed, host = bracketed ?? '127.0.0.1', port] = /^(?:(?:\[([^\]]*)\]|([^:]*)):)?(\d+)$/.exec(text) ?? []
  if (port === undefined || host === '') throw new InvalidArgumentError('It must be a port, or host:port.')
  return { host, port: portNumber(port) }
}
