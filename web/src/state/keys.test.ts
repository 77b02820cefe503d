import { describe, expect, it } from 'vitest'
import { Keys } from './keys'

describe('Keys', () => {
  for (const [keys, want] of [
    [['/'], { do: 'search' }],
    [['f'], { do: 'filter' }],
    [['j'], { do: 'next' }],
    [['g', 'p'], { go: 'pools' }],
    [['t'], { do: 'range' }],
    [['x'], { do: 'select' }],
    [['['], { do: 'before' }],
    [['g', 'v'], { go: 'tree' }],
    [['g', 't'], { go: 'settings' }],
    [['g', 'm'], { go: 'operations' }],
    [['g', 'o'], { go: './' }],
    [['g', 'z'], undefined],
    [['p'], undefined],
    [['g'], undefined],
    [['g', 'g'], undefined],
    [['g', 'z', 'k'], { do: 'previous' }],
  ] as const) {
    it(keys.join(' '), () => {
      const k = new Keys()
      expect(keys.map((key, i) => k.press(key, i * 100)).at(-1)).toEqual(want)
    })
  }
  it('forgets "g" after a while', () => {
    const k = new Keys()
    k.press('g', 0)
    expect(k.press('p', 2000)).toBeUndefined()
  })
})
