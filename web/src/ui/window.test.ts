import { describe, expect, it } from 'vitest'
import { most, once, shown, shownOf } from './window'

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

describe('shownOf', () => {
  const rows = (n: number, of: (i: number) => number | undefined) => Array.from({ length: n }, (_, i) => of(i))
  it('is all of a short list, and nothing of none', () => {
    expect(shownOf(rows(10, () => 90), 32, 0, 800)).toEqual({ first: 0, last: 10, above: 0, below: 0 })
    expect(shownOf([], 32, 0, 800)).toEqual({ first: 0, last: 0, above: 0, below: 0 })
  })
  it('is the same as for rows of one height', () => {
    for (const top of [-100, 0, 1, 31, 32, 640, 12_345, 63_000, 90_000]) expect(shownOf(rows(2000, () => 32), 32, top, 900)).toEqual(shown(2000, 32, top, 900))
  })
  it('never draws more than 60, has what is on the screen, and is as high as all rows', () => {
    const of = (i: number) => 30 + (i % 7) * 20
    const heights = rows(2000, of), all = heights.reduce<number>((sum, h) => sum + h!, 0)
    for (let top = -1000; top < all; top += 771) {
      const s = shownOf(heights, 32, top, 900)
      const drawn = heights.slice(s.first, s.last).reduce<number>((sum, h) => sum + h!, 0)
      expect(s.last - s.first).toBeLessThanOrEqual(most)
      expect(s.above + drawn + s.below).toBeCloseTo(all)
      expect(s.above).toBeLessThanOrEqual(Math.max(top, 0))
      expect(s.above + drawn).toBeGreaterThanOrEqual(Math.min(top + 900, all) - 0.01)
    }
  })
  it('takes the mean for rows that were never drawn', () =>
    expect(shownOf(rows(100, (i) => (i < 2 ? 50 + 100 * i : undefined)), 32, 0, 800)).toEqual({ first: 0, last: 60, above: 0, below: 40 * 100 }))
  it('takes a guess before any was drawn', () => expect(shownOf(rows(100, () => undefined), 32, 0, 800).below).toBe(40 * 32))
})

describe('once', () => {
  it('has each key once, the first of them', () => expect(once([{ k: 1, v: 'a' }, { k: 2, v: 'b' }, { k: 1, v: 'c' }], (r) => r.k).map((r) => r.v)).toEqual(['a', 'b']))
})
