import { describe, expect, it } from 'vitest'
import { asked, chipOf, chipsOf, completions, countOf, emptyOf, proposalsMax, turnedOf, typedChip, withChips, type Key } from './filters'

const keys: Key[] = [
  { name: 'status', many: true, values: ['failed', 'running'] },
  { name: 'pool' },
  { name: 'label', check: (v) => (v.includes('=') ? undefined : 'want name=value') },
]
const read = (text: string) => chipsOf(new URLSearchParams(text), keys)

describe('chipsOf', () => {
  it('splits values of a key that takes many', () =>
    expect(read('status=failed,running&pool=go')).toEqual([
      { key: 'status', value: 'failed' }, { key: 'status', value: 'running' }, { key: 'pool', value: 'go' }]))
  for (const [query, wrong] of [
    ['status=nope', 'want one of failed, running'],
    ['colour=red', 'there is no such filter here'],
    ['pool=a&pool=b', 'one pool at a time'],
    ['label=x', 'want name=value'],
    ['pool=', 'want a value'],
    ['status=', 'want one of failed, running'],
    ['panel=other', 'want one of filters, facets, none'],
    ['table=wait,odd', 'want one of outcomes, in-and-out, wait, run, workers, waiting, run-p95-by-version, timeline, no-timeline'],
  ] as const) {
    it(`${query}: ${wrong}`, () => expect(read(query).at(-1)!.wrong).toBe(wrong))
  }
  it('leaves out what is open', () => expect(read('panel=facets&table=wait,run')).toEqual([]))
  it('is never asked of the node if it is wrong', () => expect(asked(read('status=nope&pool=a')).toString()).toBe('pool=a'))
})

describe('values of one key', () => {
  const each: Key[] = [{ name: 'q', each: true, most: 2 }, { name: 'key', each: true }, { name: 'not.key', each: true, empty: true }]
  const of = (text: string) => chipsOf(new URLSearchParams(text), each)
  it('are as many as the API takes: one too many is marked, and not sent', () => {
    expect(of('q=a&q=b&q=c').map((c) => c.wrong)).toEqual([undefined, undefined, 'at most 2 of q at a time'])
    const chips = of(Array.from({ length: 21 }, (_, i) => `key=${i}`).join('&'))
    expect(chips.map((c) => c.wrong !== undefined).lastIndexOf(false)).toBe(19)
    expect(asked(chips).getAll('key')).toHaveLength(20)
  })
  it('count once, and not at all if they are wrong', () => {
    const chips = of('q=a&q=a&q=&q=b')
    expect(chips.map((c) => c.wrong)).toEqual([undefined, undefined, 'want a value', undefined])
    expect(asked(chips).toString()).toBe('q=a&q=b')
  })
  it('are empty only where the API takes that', () => {
    expect(of('key=&not.key=').map((c) => c.wrong)).toEqual(['want a value', undefined])
    expect(of('not.key=').map((c) => turnedOf(c, [], each))).toEqual([undefined])
  })
})

describe('typedChip', () => {
  const searched = [...keys, { name: 'q' }]
  const ids = [...searched, { name: 'id_prefix' }]
  for (const [text, of, want] of [
    ['pool: go', searched, { key: 'pool', value: 'go' }],
    ['connection refused', searched, { key: 'q', value: 'connection refused' }],
    ['dial tcp: refused', searched, { key: 'q', value: 'dial tcp: refused' }],
    ['ECONN: refused ', searched, { key: 'q', value: 'ECONN: refused' }],
    ['q:status:failed', searched, { key: 'q', value: 'status:failed' }],
    ['colour:red', keys, { key: 'colour', value: 'red' }],
    ['connection refused', keys, undefined],
    ['pool: ', searched, undefined],
    [' ', searched, undefined],
    ['01a1fd4f', ids, { key: 'id_prefix', value: '01a1fd4f' }],
    [' 01A1FD4F1ca97ccb ', ids, { key: 'id_prefix', value: '01A1FD4F1ca97ccb' }],
    ['01a1fd4f-', ids, { key: 'id_prefix', value: '01a1fd4f-' }],
    ['01a1fd4f-1ca9-7c', ids, { key: 'id_prefix', value: '01a1fd4f-1ca9-7c' }],
    ['01a1fd4f-1ca9-7ccb-bbec-bd136abe9590', ids, { key: 'id_prefix', value: '01a1fd4f-1ca9-7ccb-bbec-bd136abe9590' }],
    ['01a1fd4f1ca97ccbbbecbd136abe9590', ids, { key: 'id_prefix', value: '01a1fd4f1ca97ccbbbecbd136abe9590' }],
    ['q:01a1fd4f', ids, { key: 'q', value: '01a1fd4f' }],
    ['01a1fd4', ids, { key: 'q', value: '01a1fd4' }],
    ['01a1-fd4f1ca9', ids, { key: 'q', value: '01a1-fd4f1ca9' }],
    ['01a1fd4f-1ca97ccb', ids, { key: 'q', value: '01a1fd4f-1ca97ccb' }],
    ['01a1fd4f-1ca9-7ccb-bbec-bd136abe95901', ids, { key: 'q', value: '01a1fd4f-1ca9-7ccb-bbec-bd136abe95901' }],
    ['01a1fd4f', searched, { key: 'q', value: '01a1fd4f' }],
  ] as const) it(`${text} of ${of.length} keys`, () => expect(typedChip(text, of)).toEqual(want))
})

describe('turnedOf', () => {
  const keys: Key[] = [{ name: 'pool', each: true }, { name: 'not.pool', each: true }, { name: 'bound' }, { name: 'not.bound' }, { name: 'order' }, { name: 'until', turns: 'since' }, { name: 'since', turns: 'until' }]
  for (const [key, others, want] of [
    ['pool', [], 'not.pool'], ['not.pool', [], 'pool'], ['pool', ['not.pool'], 'not.pool'],
    ['bound', [], 'not.bound'], ['bound', ['not.bound'], undefined], ['order', [], undefined],
    ['until', [], 'since'], ['since', [], 'until'], ['since', ['until'], undefined], ['odd', [], undefined],
  ] as const) it(`${key} beside ${others.join() || 'nothing'}`, () => expect(turnedOf({ key, value: 'v' }, others.map((o) => ({ key: o, value: 'w' })), keys)).toBe(want))
})

describe('withChips', () => {
  it('is the inverse of chipsOf', () => {
    for (const text of ['', 'pool=go', 'status=failed%2Crunning&label=a%3Db', 'colour=red']) {
      expect(withChips(new URLSearchParams(text), read(text), keys).toString()).toBe(text)
    }
  })
  it('keeps their order', () => {
    for (const text of ['status=failed%2Crunning&pool=go&label=a%3Db', 'pool=go&status=failed&label=a%3Db']) expect(withChips(new URLSearchParams(), read(text), keys).toString()).toBe(text)
    expect(withChips(new URLSearchParams(), [...read('status=failed&pool=go&status=running'), ...read('status=failed')], keys).toString()).toBe('status=failed%2Crunning&pool=go')
    expect(withChips(new URLSearchParams(), read('status=&status=failed'), keys).toString()).toBe('status=failed')
  })
  it('has each alternative once', () => {
    const each: Key[] = [{ name: 'action', each: true }]
    const text = 'action=a&action=b%2Cc', chips = chipsOf(new URLSearchParams(text), each)
    expect(chips.map((c) => c.wrong)).toEqual([undefined, undefined])
    expect(asked(chips).toString()).toBe(text)
    expect(withChips(new URLSearchParams(), [...chips, { key: 'action', value: 'a' }], each).toString()).toBe(text)
  })
  it('keeps what is open', () => expect(withChips(new URLSearchParams('panel=facets&pool=go&table=run'), [], keys).toString()).toBe('panel=facets&table=run'))
  it('removes a panel that there is not', () => expect(withChips(new URLSearchParams('panel=other&pool=go'), read('pool=go'), keys).toString()).toBe('pool=go'))
})

describe('countOf', () => {
  const timed: Key[] = [...keys, { name: 'from', quiet: true, check: (v) => (v.startsWith('-') ? undefined : 'want an age') }]
  for (const [query, want] of [
    ['', 'Filters: none set'],
    ['panel=facets', 'Filters: none set'],
    ['from=-6h&pool=go', 'Filters: 1 set'],
    ['status=failed,running&pool=go', 'Filters: 3 set'],
    ['pool=go&colour=red', 'Filters: 1 set, 1 wrong'],
    ['from=yesterday', 'Filters: none set, 1 wrong'],
  ] as const) {
    it(query || 'nothing', () => expect(countOf(chipsOf(new URLSearchParams(query), timed), timed)).toBe(want))
  }
})

describe('emptyOf', () => {
  const from = { key: 'from', value: '-1h' }, pool = { key: 'pool', value: 'go' }
  for (const [chips, says] of [
    [[], undefined],
    [[{ ...pool, wrong: 'no' }, { key: 'order', value: 'oldest' }], undefined],
    [[from], 'No worker is of this time. Choose another one at the top.'],
    [[pool], 'No worker has all of these filters. Remove one.'],
    [[from, pool], 'No worker has all of these filters in this time. Remove one, or choose another time.'],
  ] as const) it(says ?? 'nothing', () => expect(emptyOf('worker', chips)).toBe(says))
})

describe('chipOf', () => {
  for (const [text, chip] of [
    ['status:failed', { key: 'status', value: 'failed' }],
    [' worker: a/go/1 ', { key: 'worker', value: 'a/go/1' }],
    ['label:team=x', { key: 'label', value: 'team=x' }],
    ['failed', undefined],
    ['status:', undefined],
  ] as const) {
    it(text, () => expect(chipOf(text)).toEqual(chip))
  }
})

describe('completions', () => {
  const known = { pool: ['go', 'python', 'shell'], action: ['core.echo', 'demo.echo', 'echo.all'] }
  const named: Key[] = [...keys, { name: 'action' }, { name: 'not.action' }, { name: 'subject', names: 'pool' }]
  for (const [text, want] of [
    ['', ['status:', 'pool:', 'label:', 'action:', 'not.action:', 'subject:']],
    ['st', ['status:']],
    ['status:f', ['status:failed']],
    ['status:FAI', ['status:failed']],
    ['status:failed', []], // it is complete
    ['pool:', ['pool:go', 'pool:python', 'pool:shell']],
    ['pool:ython', ['pool:python']],
    ['not.action:echo', ['not.action:echo.all', 'not.action:core.echo', 'not.action:demo.echo']], // what begins with it first
    ['subject:g', ['subject:go']],
    ['runn', ['status:running']],
    ['pyth', ['pool:python', 'subject:python']],
    ['r', []], // too short for values
    ['colour:red', []],
    ['label:te', []],
  ] as [string, string[]][]) it(text || 'nothing', () => expect(completions(text, named, known)).toEqual(want))
  it('has a bound', () => {
    const many = Array.from({ length: 500 }, (_, i) => `pool-${i}`)
    expect(completions('pool:', keys, { pool: many })).toHaveLength(proposalsMax)
    expect(completions('pool-', keys, { pool: many })).toHaveLength(proposalsMax)
  })
})
