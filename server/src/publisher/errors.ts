/** Why nothing, or not everything, was published. The message is written to be shown as it is. */
export class PublishError extends Error {
  override readonly name = 'PublishError'
}
