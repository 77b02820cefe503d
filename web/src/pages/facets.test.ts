import { describe, expect, it } from 'vitest'
import type { Execution, Facets } from '../api/types'
import { countOf, facetsOf, labelsOf, narrowed, ordered, said, outcomesOf } from './facets'

const facets = (more: Partial<Facets>): Facets => ({ basis: 'list', exact: true, executions: 1292, fields: {}, ...more })

describe('counts beside a list', () => {
  it('are asked for with the filters of the list', () => {
    expect(facetsOf('status=failed&from=-6h&order=oldest').toString()).toBe('status=failed&from=-6h&fields=status%2Caction%2Cpool%2Cerror%2Cworker&limit=8')
  })
  it('have the fields in the order in which they are asked for', () => {
    const value = [{ value: 'x', n: 1 }], fields = { action: value, error: [], 'label.b': value, 'label.a': value, status: value, worker: value }
    expect(ordered({ executions: 1, exact: true, basis: 'list', fields }).map(([field]) => field)).toEqual(['status', 'action', 'worker', 'label.a', 'label.b'])
  })
  it('lead to the list of a value', () => {
    expect(narrowed('status=failed,completed&pool=go', 'status', 'failed', 'facets')).toBe('executions?status=failed&pool=go&panel=facets')
    expect(narrowed('', 'worker', 'a/go/1', null)).toBe('executions?worker=a/go/1')
    expect(narrowed('pool=go&pool=python&error=boom', 'pool', 'python', null)).toBe('executions?pool=python&error=boom')
  })
  it('are of labels too, as the rows have them', () => {
    const rows = [{ labels: { team: 'a', size: 's' } }, { labels: { team: 'b' } }, {}] as Execution[]
    expect(labelsOf(rows)).toEqual(['team', 'size'])
    expect(facetsOf('', labelsOf(rows)).get('fields')).toBe('status,action,pool,error,worker,label.team,label.size')
    expect(narrowed('label=team%3Da&label=size%3Ds', 'label.team', 'b', 'facets')).toBe('executions?label=size%3Ds&label=team%3Db&panel=facets')
  })
  it('say what was counted', () => {
    expect(said(facets({}))).toBe('All 1,292 executions of the list')
    expect(said({ ...facets({}), executions: 0 })).toBe('No execution of the list')
    expect(said(facets({ exact: false }))).toBe('The newest 1,292 executions of the list, as far as was looked')
    expect(said(facets({ basis: 'minutes', exact: false }))).toContain('≈ 1,292 executions that ended')
    expect(said(facets({ executions: 1 }))).toBe('The only execution of the list')
    expect(said(facets({ executions: 1, exact: false }))).toBe('The newest execution of the list, as far as was looked')
    expect(said(facets({ executions: 1, basis: 'minutes', exact: false }))).toContain('≈ 1 execution that ended')
  })
})

it('knows how many have a value, or says that it does not', () => {
  const f = (more: object) => ({ from: '', basis: 'list', exact: true, executions: 1, fields: { action: [{ value: 'a', n: 3 }] }, ...more }) as unknown as Facets
  expect([countOf(f({}), 'action', 'a'), countOf(f({}), 'action', 'b'), countOf(f({ exact: false, basis: 'minutes' }), 'action', 'b')]).toEqual([3, 0, 0])
  expect([countOf(f({ exact: false }), 'action', 'b'), countOf(f({ left: { action: 2 } }), 'action', 'b'), countOf(undefined, 'action', 'a')]).toEqual([undefined, undefined, undefined])
})

describe('the chart of outcomes', () => {
  for (const [params, want] of [
    ['', { scope: {}, among: [] }],
    ['action=a.b&pool=p&from=2030-01-01T00:00:00Z&order=oldest&limit=100', { scope: { pool: ['p'], action: ['a.b'] }, among: [] }],
    ['status=failed,running&status=timed_out', { scope: {}, among: ['failed', 'timed_out'] }],
    ['status=running', undefined], // none has ended
    ['label=a%3Db', undefined],
    ['pool=p&pool=q&action=a', { scope: { pool: ['p', 'q'], action: ['a'] }, among: [] }],
    ['action=a&action=b', { scope: { action: ['a', 'b'] }, among: [] }],
    ['not.status=failed', undefined],
  ] as const) it(params || 'of all', () => expect(outcomesOf(params)).toEqual(want))
})
