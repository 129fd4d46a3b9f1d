import { OperatorError } from '@keyhush/server/proofs'

/** Why a ceremony did not go on. The message is written to be shown as it is. */
export class CeremonyError extends OperatorError {
  override readonly name = 'CeremonyError'
}
