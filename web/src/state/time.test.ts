import { describe, expect, it } from 'vitest'
import { age, clock, duration, known, moment, oldOf, whole } from './time'

describe('duration', () => {
  for (const [ms, text] of [
    [0, '0 s'], [0.004, '< 0.01 ms'], [0.474, '0.47 ms'], [1, '1.0 ms'], [9.96, '10 ms'], [840, '840 ms'], [999.6, '1.0 s'], [1234, '1.2 s'], [9_960, '10 s'],
    [59_960, '1 min'], [61_000, '1 min 1 s'], [119_900, '2 min'], [3_600_000, '1 h'], [5_400_000, '1 h 30 min'],
    [86_400_000 * 2 + 3_600_000 * 4, '2 d 4 h'], [-1500, '−1.5 s'], [NaN, '–'],
  ] as const) {
    it(`${ms} is ${text}`, () => expect(duration(ms)).toBe(text))
  }
})

const now = Date.parse('2026-11-25T17:00:00Z')
describe('age and clock', () => {
  it('says ago', () => expect(age('2026-11-25T16:59:55Z', now)).toBe('5.0 s ago'))
  it('says in', () => expect(age('2026-11-25T17:01:00Z', now)).toBe('in 1 min'))
  it('takes the clocks of two machines for one within a second', () => expect(age('2026-11-25T17:00:00.062Z', now)).toBe('now'))
  it('is a time of today', () => expect(clock('2026-11-25T03:12:09Z', now, true)).toBe('03:12:09'))
  it('has the date of another day', () => expect(clock('2026-11-24T03:12:09Z', now, true)).toBe('11-24 03:12:09'))
  it('has the date of today beside a beginning of another day', () => {
    expect(clock('2026-11-25T00:22:58Z', now, true, '2026-11-24T23:22:58Z')).toBe('11-25 00:22:58')
    expect(clock('2026-11-25T01:22:58Z', now, true, '2026-11-25T00:22:58Z')).toBe('01:22:58')
  })
  it('has the year of another year', () => expect(clock('2025-11-24T03:12:09Z', now, true)).toBe('2025-11-24 03:12:09'))
  it('has milliseconds in a log', () => expect(moment('2026-11-25T03:12:09.123456Z', true)).toBe('03:12:09.123'))
  it('is whole in a title', () => expect(whole('2026-11-25T03:12:09.123456Z', true)).toBe('2026-11-25 03:12:09.123 UTC'))
})

describe('oldOf', () => {
  for (const [ms, want] of [[0, 'now'], [4999, 'now'], [5000, '5.0 s old'], [185_000, '3 min 5 s old']] as const) it(want, () => expect(oldOf(ms)).toBe(want))
})

it('takes the year 1 for no time', () => {
  expect(['0001-01-01T00:00:00Z', '', undefined].map(known)).toEqual([undefined, undefined, undefined])
  expect(['2026-11-25T16:59:55Z', '1970-01-01T00:00:00Z'].map(known)).toEqual(['2026-11-25T16:59:55Z', '1970-01-01T00:00:00Z'])
})
