// The error of the ceremony's commands.

import { OperatorError } from '@keyhush/server/proofs'

/** Why a command of the ceremony failed. The command prints the message. */
export class CeremonyError extends OperatorError {
  override readonly name = 'CeremonyError'
}
