export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
