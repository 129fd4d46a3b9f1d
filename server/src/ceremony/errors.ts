/** Why a ceremony did not go on. The message is written to be shown as it is. */
export class CeremonyError extends Error {
  override readonly name = 'CeremonyError'
}
