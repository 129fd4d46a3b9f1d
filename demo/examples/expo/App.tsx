// Checks whether a password was leaked. The servers do not learn which one was asked.

import { type KeyhushError, type KeyhushMap, open } from '@keyhush/react-native'
import * as crypto from 'expo-crypto'
import { useEffect, useState } from 'react'
import { Button, SafeAreaView, Text, TextInput } from 'react-native'
import { publisherKey, servers } from './servers'

export default function App() {
  const [map, setMap] = useState<KeyhushMap>()
  const [password, setPassword] = useState('')
  const [status, setStatus] = useState('Opening')

  useEffect(() => {
    const opening = open({ servers, publisherKey, crypto, development: true }) // two ports of one machine: leave this out
    const shown = (map: KeyhushMap) => {
      setMap(map)
      setStatus('')
    }
    opening.then(shown, ({ code }: KeyhushError) => setStatus(`The list did not open (${code}).`))
    return () => {
      opening.then(map => map.close()).catch(() => {}) // it never opened
    }
  }, [])

  const check = async () => {
    setStatus('One moment')
    try {
      setStatus((await map?.has(password)) ? 'Leaked. Choose another.' : 'Not on the list.')
    } catch (error) {
      const { code, retryable } = error as KeyhushError
      setStatus(retryable ? 'No answer. Try again.' : `No answer that you can rely on (${code}).`)
    }
  }

  return (
    <SafeAreaView>
      <TextInput placeholder="A password" secureTextEntry value={password} onChangeText={setPassword} />
      <Button title="Was it leaked?" disabled={map === undefined || password === ''} onPress={check} />
      <Text accessibilityRole="alert">{status}</Text>
    </SafeAreaView>
  )
}
