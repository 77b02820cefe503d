import { describe, expect, it } from 'vitest'
import type { JournalEntry } from '../api/types'
import { nearest, searched, sideMax, type Search } from './nearest'

describe('the window after a change', () => {
  for (const [name, s, entries, more, want] of [
    ['serves with enough entries', { window: 0 }, sideMax, false, { window: 0 }],
    ['grows while it has too few', { window: 0 }, 3, false, { window: 1 }],
    ['ends with the last one', { window: 3 }, 3, false, { window: 3 }],
    ['goes back from one with more than an answer', { window: 2 }, 500, true, { window: 1, full: 2 }],
    ['does not grow into that one again', { window: 1, full: 2 }, 3, false, { window: 1, full: 2 }],
    ['grows up to that one', { window: 0, full: 2 }, 3, false, { window: 1, full: 2 }],
    ['stays where the first one has more than an answer', { window: 0 }, 500, true, { window: 0 }],
  ] as const) it(name, () => expect(searched(s, entries, more)).toEqual(want))
  it('is found within some answers, whatever they are', () => {
    for (let answers = 0; answers < 3 ** 4; answers++) {
      let s: Search = { window: 0 }
      const of = [0, 1, 2, 3].map((i) => Math.floor(answers / 3 ** i) % 3)
      let asked = 0
      for (let next = searched(s, of[0]! * 20, of[0] === 2); next !== s && asked < 20; asked++) {
        s = next
        next = searched(s, of[s.window]! * 20, of[s.window] === 2)
      }
      expect(asked).toBeLessThan(8)
    }
  })
})

describe('the entries nearest to a change', () => {
  const side = (prefix: string, n: number, more = false) => ({ entries: Array.from({ length: n }, (_, i) => ({ subject: `${prefix}${i}` }) as JournalEntry), more })
  const names = (list: readonly JournalEntry[]) => list.map((e) => e.subject)
  it('are all where that are few', () => {
    const { shown, left } = nearest(side('b', 2), side('a', 2), { window: 3 })
    expect([names(shown), left]).toEqual([['a0', 'a1', 'b0', 'b1'], false])
  })
  it('are the last of what was after it, and the first of what was before', () => {
    const { shown, left } = nearest(side('b', 40), side('a', 40), { window: 1 })
    expect([names(shown).slice(0, 1), names(shown).slice(sideMax - 1, sideMax + 1), names(shown).slice(-1), shown.length, left]).toEqual([['a15'], ['a39', 'b0'], ['b24'], 50, true])
  })
  for (const [name, before, after, s] of [
    ['before it', side('b', 25, true), side('a', 2), { window: 3 }],
    ['after it', side('b', 2), side('a', 26), { window: 3 }],
    ['behind the window', side('b', 2), side('a', 2), { window: 1, full: 2 }],
  ] as const) it(`leave something out ${name}`, () => expect(nearest(before, after, s).left).toBe(true))
})
