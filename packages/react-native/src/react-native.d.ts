// What this package uses of React Native, whose own types do not go together with those of browsers.

declare module 'react-native' {
  export const AppState: {
    addEventListener(type: 'change', listener: (state: string) => void): { remove(): void }
  }
}
