import { describe, expect, it } from 'vitest'
import { chipsOf } from './filters'
import { askedSpan, fieldOf, fieldTime, lasting, lengthOf, nameOf, spanOf, timed, timedChips, timedPath, timeKeys, endOf, timeless, rangeGiven } from './range'

const now = Date.parse('2030-01-31T08:00:00Z')
const q = (text: string) => new URLSearchParams(text)
const iso = (ms: number) => new Date(ms).toISOString().slice(0, 19) + 'Z'

describe('rangeGiven', () => {
  it('leaves out what is wrong and what is no range', () => expect(rangeGiven(new URLSearchParams('from=-6h&to=noon&pool=go'))).toEqual([['from', '-6h']]))
})

describe('a range', () => {
  for (const [text, otherwise, want] of [
    ['', undefined, undefined],
    ['', '-1h', ['2030-01-31T07:00:00Z', '2030-01-31T08:00:00Z', true]],
    ['from=-6h', '-1h', ['2030-01-31T02:00:00Z', '2030-01-31T08:00:00Z', true]],
    ['from=-15min&to=2030-01-31T05:00:00Z', undefined, ['2030-01-31T04:45:00Z', '2030-01-31T05:00:00Z', false]],
    ['from=2030-01-31T03:00:00Z', undefined, ['2030-01-31T03:00:00Z', '2030-01-31T08:00:00Z', true]],
    ['from=2030-01-31T03:00:00%2B01:00&to=2030-01-31T05:00:00Z', '-1h', ['2030-01-31T02:00:00Z', '2030-01-31T05:00:00Z', false]],
    ['to=2030-01-31T05:00:00Z', undefined, undefined],
    ['to=2030-01-31T05:00:00Z', '-1h', ['2030-01-31T04:00:00Z', '2030-01-31T05:00:00Z', false]],
    ['from=yesterday', '-1h', ['2030-01-31T07:00:00Z', '2030-01-31T08:00:00Z', true]],
    ['from=2030-01-31T09:00:00Z', undefined, ['2030-01-31T08:00:00Z', '2030-01-31T08:00:00Z', true]],
  ] as const) {
    it(`${text || 'none'}, ${otherwise ?? 'all'}`, () => {
      const s = spanOf(q(text), now, otherwise)
      expect(s && [iso(s.from), iso(s.to), s.live]).toEqual(want)
    })
  }
  it('takes ages up to 92 days', () => {
    expect(['-15min', '-30s', '-92d', '-93d', '-0h', '6h', '-6w', '-1.5h'].map(lengthOf)).toEqual([900_000, 30_000, 92 * 86_400_000, undefined, undefined, undefined, undefined, undefined])
  })
  it('names what it does not take', () => {
    expect(chipsOf(q('from=yesterday&to=-1h'), timeKeys).map((c) => c.wrong)).toEqual(['want a time, as 2030-01-31T08:00:00Z, or an age, as -6h', 'want a time, as 2030-01-31T08:00:00Z'])
    expect(chipsOf(q('from=-6h&to=2030-01-31T08:00:00Z'), timeKeys).every((c) => !c.wrong)).toBe(true)
  })
  it('says how long an age may be', () => {
    const wrong = ['-400d', '-2209h', '-99999999s', '-92d', '-2208h', '-0d', '-6w'].map((v) => chipsOf(q(`from=${v}`), timeKeys)[0]!.wrong)
    const limit = 'want an age of at most 92 d, or a time, as 2030-01-31T08:00:00Z', shape = 'want a time, as 2030-01-31T08:00:00Z, or an age, as -6h'
    expect(wrong).toEqual([limit, limit, limit, undefined, undefined, shape, shape])
  })
  it('is asked for as an age while it ends now', () => {
    expect(askedSpan(q(''), '-1h')).toEqual({ from: '-1h' })
    expect(askedSpan(q('from=-6h'), '-1h')).toEqual({ from: '-6h' })
    expect(askedSpan(q('from=yesterday'), '-1h')).toEqual({ from: '-1h' })
    expect(askedSpan(q('from=2030-01-31T03:00:00Z'), '-1h')).toEqual({ from: '2030-01-31T03:00:00Z' })
    expect(askedSpan(q('from=-6h&to=2030-01-31T08:00:00Z'), '-1h')).toEqual({ from: '2030-01-31T02:00:00Z', to: '2030-01-31T08:00:00Z' })
  })
  it('is asked for by times', () => {
    expect(timed(q('a=1&from=-1h'), now).toString()).toBe('a=1&from=2030-01-31T07%3A00%3A00Z')
    expect(timedPath('api/v1/errors?by=code&from=-1h', now)).toBe('api/v1/errors?by=code&from=2030-01-31T07:00:00Z')
    expect(timedPath('api/v1/errors?from=-1h&to=2030-01-31T05:00:00Z', now)).toBe('api/v1/errors?from=2030-01-31T04:00:00Z&to=2030-01-31T05:00:00Z')
    expect(timedPath('api/v1/errors?q=from=-1h', now)).toBe('api/v1/errors?q=from=-1h')
    expect(timedPath('api/v1/pools', now)).toBe('api/v1/pools')
    expect(timedChips([{ key: 'pool', value: 'go' }, { key: 'from', value: '-1h' }], now)).toEqual([{ key: 'pool', value: 'go' }, { key: 'from', value: '2030-01-31T07:00:00Z' }])
  })
  it('lasts in a copied link', () => {
    expect(lasting('http://n/console/errors?by=code&from=-1h', now)).toBe('http://n/console/errors?by=code&from=2030-01-31T07:00:00Z&to=2030-01-31T08:00:00Z')
    expect(lasting('http://n/console/', now, '-1h')).toBe('http://n/console/?from=2030-01-31T07:00:00Z&to=2030-01-31T08:00:00Z')
    for (const same of ['status=failed', 'to=2030-01-31T05:00:00Z', 'from=2030-01-31T09:00:00Z']) expect(lasting(`http://n/console/executions?${same}`, now)).toBe(`http://n/console/executions?${same}`)
    expect(lasting('http://n/console/errors?to=2030-01-31T05:00:00Z', now, '-1h')).toBe('http://n/console/errors?to=2030-01-31T05:00:00Z&from=2030-01-31T04:00:00Z')
  })
  it('has a name', () => {
    expect(nameOf(q(''), now, true)).toBe('All times')
    expect(nameOf(q(''), now, true, '-1h')).toBe('Last 1 h')
    expect(nameOf(q('from=-2h'), now, true)).toBe('Last 2h')
    expect(nameOf(q('to=2030-01-31T05:00:00Z'), now, true)).toBe('Until 2030-01-31 05:00:00')
    expect(nameOf(q('to=2030-01-31T05:00:00Z'), now, true, undefined, 'Now')).toBe('At 2030-01-31 05:00:00')
    expect(nameOf(q('to=2030-01-31T05:00:00Z'), now, true, '-1h')).toBe('2030-01-31 04:00:00 to 05:00:00')
    expect(nameOf(q('from=2030-01-31T03:00:00Z&to=2030-01-31T05:00:00Z'), now, true)).toBe('2030-01-31 03:00:00 to 05:00:00')
    expect(nameOf(q('from=2030-01-30T03:00:00Z'), now, true)).toBe('2030-01-30 03:00:00 to now')
  })
  it('is typed in the zone of the page', () => {
    expect(fieldOf(now, true)).toBe('2030-01-31T08:00:00')
    expect(fieldTime('2030-01-31T08:00', true)).toBe(now)
    expect(fieldTime(fieldOf(now, false), false)).toBe(now)
    expect(fieldTime('', true)).toBeUndefined()
  })
})

it('ends before now, or is not of the past', () => {
  const now = Date.parse('2026-11-25T18:00:00Z')
  const end = (query: string) => endOf(new URLSearchParams(query), now)
  expect([end(''), end('from=-1h'), end('to=nonsense'), end('to=2026-11-25T19:00:00Z'), end('to=2026-11-25T17:00:00Z')]).toEqual([undefined, undefined, undefined, undefined, now - 3_600_000])
  expect(timeless([{ key: 'from', value: '-1h' }, { key: 'pool', value: 'go' }, { key: 'to', value: 'x', wrong: 'no time' }]).map((c) => c.key)).toEqual(['pool', 'to'])
})
