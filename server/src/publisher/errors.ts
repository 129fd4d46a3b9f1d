import { OperatorError } from '../base/errors.js'

/** Why nothing, or not everything, was published. The message is written to be shown as it is. */
export class PublishError extends OperatorError {
  override readonly name = 'PublishError'
  /** of a server's error reply */
  readonly code: string | undefined

  constructor(message: string, code?: string) {
    super(message)
    this.code = code
  }
}
