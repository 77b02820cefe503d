import { describe, expect, it } from 'vitest'
import { shown } from './window'

describe('shown', () => {
  it('is all of a short list', () => expect(shown(10, 32, 0, 800)).toEqual({ first: 0, last: 10, above: 0, below: 0 }))
  it('never draws more than 60', () => {
    for (let top = -1000; top < 70_000; top += 77) {
      for (const height of [100, 900, 4000]) {
        const s = shown(2000, 32, top, height)
        expect(s.last - s.first).toBeLessThanOrEqual(60)
        expect(s.above + (s.last - s.first) * 32 + s.below).toBe(2000 * 32)
        expect(s.first).toBeGreaterThanOrEqual(0)
      }
    }
  })
  it('has what is on the screen', () => {
    const s = shown(2000, 32, 3200, 900)
    expect(s.first).toBeLessThanOrEqual(100)
    expect(s.last).toBeGreaterThanOrEqual(129)
  })
})
