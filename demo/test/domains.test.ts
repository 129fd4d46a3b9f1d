// Typed text becomes the keys that a list of hosts is looked up by.

import { describe, expect, test } from 'vitest'
import { hostAndParents, hostOf, KEYS_PER_LOOKUP } from '../src/page/domains.js'

describe('hostOf', () => {
  test.each([
    ['evil.example', 'evil.example'],
    ['  Evil.Example \n', 'evil.example'],
    ['https://Evil.Example:8443/path?q=1#x', 'evil.example'],
    ['evil.example:8443/path', 'evil.example'],
    ['//evil.example/path', 'evil.example'],
    ['ftp://evil.example', 'evil.example'],
    ['https://user:secret@evil.example/', 'evil.example'],
    ['http://good.example@evil.example', 'evil.example'],
    ['evil.example.', 'evil.example'],
    ['hxxps://evil[.]example/login', 'evil.example'],
    ['münchen.example', 'xn--mnchen-3ya.example'],
    ['https://MÜNCHEN.example', 'xn--mnchen-3ya.example'],
    ['evil。example', 'evil.example'],
    ['192.168.0.1', '192.168.0.1'],
    ['http://[::1]:80/', '[::1]'],
    ['localhost', 'localhost'],
  ])('%j is %s', (text, host) => {
    expect(hostOf(text)).toBe(host)
  })

  test.each([
    '',
    '   ',
    'http://',
    'two words',
    'https://',
    'a..b/%',
    'http://:80',
    '.',
    'not-a domain!!',
    'evil!.example',
  ])('%j has no host', text => {
    expect(hostOf(text)).toBeUndefined()
  })
})

describe('hostAndParents', () => {
  test('goes down to two labels', () => {
    expect(hostAndParents('a.b.evil.example')).toEqual(['a.b.evil.example', 'b.evil.example', 'evil.example'])
    expect(hostAndParents('evil.example')).toEqual(['evil.example'])
    expect(hostAndParents('localhost')).toEqual(['localhost'])
  })

  test('addresses have no parents', () => {
    expect(hostAndParents('192.168.0.1')).toEqual(['192.168.0.1'])
    expect(hostAndParents('[::1]')).toEqual(['[::1]'])
  })

  test('never makes more keys than KEYS_PER_LOOKUP', () => {
    const nine = hostAndParents('a.b.c.d.e.f.g.h.evil.example')
    expect(nine).toHaveLength(KEYS_PER_LOOKUP)
    expect(nine[0]).toBe('a.b.c.d.e.f.g.h.evil.example')
    expect(nine[1]).toBe('c.d.e.f.g.h.evil.example')
    expect(nine.at(-1)).toBe('evil.example')
    const eight = hostAndParents('a.b.c.d.e.f.g.example.org')
    expect(eight).toHaveLength(KEYS_PER_LOOKUP)
    expect(eight[1]).toBe('b.c.d.e.f.g.example.org')
  })
})
