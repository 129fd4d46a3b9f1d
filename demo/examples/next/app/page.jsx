import { Check } from './check'

export default function Page() {
  return (
    <main>
      <h1>Is it on the list?</h1>
      <Check />
    </main>
  )
}
