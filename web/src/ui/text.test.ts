import { describe, expect, it } from 'vitest'
import { bytes, plain, visible, wordsOf } from './text'

describe('visible', () => {
  for (const [text, want] of [
    ['a\tb\n', 'a\tb\n'],
    ['a\r\nb', 'a\nb'],
    ['\u0007', '\u2407'],
    ['\u001b[31m', '\u241b[31m'],
    ['abc\u202edcb', 'abc\u27e8U+202E\u27e9dcb'],
    ['a\u200bb', 'a\u27e8U+200B\u27e9b'],
    ['<script>', '<script>'],
  ] as const) {
    it(JSON.stringify(text), () => expect(visible(text)).toBe(want))
  }
})

describe('plain', () => {
  it('removes colours', () => expect(plain('\u001b[1;31mred\u001b[0m')).toBe('red'))
  it('removes titles', () => expect(plain('\u001b]0;title\u0007x')).toBe('x'))
})

describe('bytes', () => {
  it('are read as UTF-8', () => expect(bytes('aMOpIPCfkYs=')).toBe('hé 👋'))
  it('mark what is none', () => expect(bytes('/2E=')).toBe('\ufffda'))
})

it('has commands and titles apart', () => {
  expect(wordsOf('`troupe list --q "*"`: see *A broken pool* below, or 2 * 3 * 4')).toEqual([
    { kind: 'code', text: 'troupe list --q "*"' }, { kind: 'text', text: ': see ' }, { kind: 'title', text: 'A broken pool' }, { kind: 'text', text: ' below, or 2 * 3 * 4' }])
})
