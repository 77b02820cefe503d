import { describe, expect, it } from 'vitest'
import { kept, panned, pinched, point, pointOf, put, viewOf, zoomed } from './zoom'

const start = Date.parse('2026-11-25T17:00:00Z')
const whole = { from: start, to: start + 100_000 }
const s = (seconds: number) => start + seconds * 1000
const query = (text: string) => new URLSearchParams(text)

describe('viewOf', () => {
  it('is all without a range', () => expect(viewOf(query(''), whole)).toBeUndefined())
  it('reads milliseconds', () => expect(viewOf(query('from=2026-11-25T17:00:10.250Z&to=2026-11-25T17:00:20Z'), whole)).toEqual({ from: s(10.25), to: s(20) }))
  it('goes on to the end without an end', () => expect(viewOf(query('from=2026-11-25T17:00:10Z'), whole)).toEqual({ from: s(10), to: s(100) }))
  it('stays within the whole', () => expect(viewOf(query('from=2020-01-01T00:00:00Z&to=2026-11-25T17:00:20Z'), whole)).toBeUndefined())
  it('leaves out what is wrong', () => expect(viewOf(query('from=-1h'), whole)).toBeUndefined())
})

describe('kept', () => {
  it('is never shorter than can be told apart', () => expect(kept({ from: s(50), to: s(50) }, whole)).toEqual({ from: s(50), to: s(50) + 10 }))
  it('moves back what reaches beyond', () => expect(kept({ from: s(95), to: s(115) }, whole)).toEqual({ from: s(80), to: s(100) }))
  it('is nothing for a whole that is shorter than the shortest', () => expect(kept({ from: start, to: start + 1 }, { from: start, to: start + 2 })).toBeUndefined())
})

describe('zoomed', () => {
  it('keeps a moment where it is', () => {
    const view = zoomed(whole, whole, 0.5, s(20))!
    expect([view.from, view.to]).toEqual([s(10), s(60)])
    expect((s(20) - view.from) / (view.to - view.from)).toBeCloseTo(0.2)
  })
  it('ends at the whole', () => expect(zoomed({ from: s(10), to: s(60) }, whole, 4)).toBeUndefined())
  it('ends at the shortest', () => {
    let view = { from: s(10), to: s(60) }
    for (let i = 0; i < 100; i++) view = zoomed(view, whole, 0.5)!
    expect(view.to - view.from).toBeCloseTo(10)
  })
})

describe('panned', () => {
  it('keeps its length at the ends', () => {
    expect(panned({ from: s(10), to: s(20) }, whole, 0.5)).toEqual({ from: s(15), to: s(25) })
    expect(panned({ from: s(10), to: s(20) }, whole, -5)).toEqual({ from: s(0), to: s(10) })
    expect(panned({ from: s(10), to: s(20) }, whole, 50)).toEqual({ from: s(90), to: s(100) })
  })
  it('does not move all of it', () => expect(panned(whole, whole, 0.5)).toBeUndefined())
})

describe('pinched', () => {
  it('spreads what was between two fingers', () => expect(pinched(whole, whole, [0.25, 0.75], [0, 1])).toEqual({ from: s(25), to: s(75) }))
  it('moves with both', () => expect(pinched({ from: s(40), to: s(60) }, whole, [0.2, 0.4], [0.7, 0.9])).toEqual({ from: s(30), to: s(50) }))
  it('does nothing for fingers at one place', () => expect(pinched({ from: s(40), to: s(60) }, whole, [0.5, 0.5], [0.2, 0.8])).toEqual({ from: s(40), to: s(60) }))
})

describe('put', () => {
  it('writes what is no default', () => {
    const q = query('x=1&to=2026-11-25T17:00:20Z')
    put(q, { from: s(10), to: s(100) }, whole, true)
    expect(q.toString()).toBe('x=1&from=2026-11-25T17%3A00%3A10.000Z')
    put(q, { from: s(0), to: s(10) }, whole, false)
    expect(q.toString()).toBe('x=1&to=2026-11-25T17%3A00%3A10.000Z')
    put(q, undefined, whole, false)
    expect(q.toString()).toBe('x=1')
  })
  it('reads back what it writes', () => {
    const q = query('')
    put(q, { from: s(10.125), to: s(20.5) }, whole, false)
    expect(viewOf(q, whole)).toEqual({ from: s(10.125), to: s(20.5) })
    point(q, s(12.001))
    expect(pointOf(q, whole)).toBe(s(12.001))
    point(q, undefined)
    expect(pointOf(q, whole)).toBeUndefined()
  })
})
