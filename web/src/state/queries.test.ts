import { describe, expect, it } from 'vitest'
import { without, wrongIn } from './queries'
import { match } from './route'

describe('wrongIn', () => {
  for (const [address, wrong] of [
    ['?from=-1h', []],
    ['?from=yesterday&colour=red', ['from', 'colour']],
    ['pools?to=2030-01-31T08:00:00Z', []],
    ['pools/go?from=-1h&panel=other', ['panel']],
    ['workers/a/go/1?colour=red', ['colour']],
    ['tree?at=2030-01-31T08:00:00Z&actor=01a2 troupe/pools', []],
    ['tree?at=noon&actor=troupe', ['at', 'actor']],
    ['executions/01a2?from=-1h&at=2030-01-31T08:00:00Z', ['from']],
    ['operations?from=-1h&to=noon&colour=red', ['to', 'colour']],
    ['settings?colour=red', ['colour']],
    ['nothing?colour=red', ['colour']],
    ['executions?colour=red', []], // its bar says so
  ] as const) {
    const [path, query] = address.split('?')
    it(address, () => expect(wrongIn(match(path!, new URLSearchParams(query))).map((c) => c.key)).toEqual(wrong))
  }
  it('takes the keys of a list that shows the past', () =>
    expect(wrongIn(match('sessions', new URLSearchParams('q=u-1&to=2020-01-01T00:00:00Z&colour=red')), [{ name: 'q' }, { name: 'to' }]).map((c) => c.key)).toEqual(['colour']))
})

describe('without', () => {
  it('takes one of joined values', () =>
    expect(without(new URLSearchParams('output=open,odd&find='), { key: 'output', value: 'odd' }).toString()).toBe('output=open&find='))
  it('leaves the rest as it is', () =>
    expect(without(new URLSearchParams('a=1&a=2&from=-1h'), { key: 'a', value: '1' }).toString()).toBe('a=2&from=-1h'))
})
