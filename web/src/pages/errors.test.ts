import { describe, expect, it } from 'vitest'
import type { ErrorGroup } from '../api/types'
import { keys, listOf, shares } from './errors'

const group = (more: Partial<ErrorGroup>): ErrorGroup => ({ n: 1, first: '', last: '', example: '', examples: [], ...more })

const answer = { from: '2030-01-31T08:00:00Z', to: '2030-01-31T09:00:00Z' }

describe('groups of errors', () => {
  it('lead to their executions, with the filters of the page', () => {
    expect(listOf(group({ action_ref: 'core.fail', code: 'boom' }), [{ key: 'pool', value: 'go' }, { key: 'from', value: '2030-01-31T08:00:00Z' }, { key: 'by', value: 'code' }, { key: 'odd', value: 'x', wrong: 'no' }], answer))
      .toBe('executions?pool=go&ended_from=2030-01-31T08:00:00Z&status=failed,timed_out,abandoned&action=core.fail&error=boom')
  })
  // A count is of a time, also where the page has an age of it or none: the list behind it has no older ones.
  for (const [name, chips, want] of [
    ['no range', [], 'ended_from=2030-01-31T08:00:00Z'],
    ['an age', [{ key: 'from', value: '-1h' }], 'ended_from=2030-01-31T08:00:00Z'],
    ['an age up to a time', [{ key: 'from', value: '-1h' }, { key: 'to', value: '2030-01-31T09:00:00Z' }], 'ended_from=2030-01-31T08:00:00Z&ended_to=2030-01-31T09:00:00Z'],
    ['an end that is none', [{ key: 'to', value: 'noon', wrong: 'want a time' }], 'ended_from=2030-01-31T08:00:00Z'],
  ] as const) {
    it(`lead to those of their time: ${name}`, () => expect(listOf(group({ worker: 'a/go/1' }), [{ key: 'status', value: 'failed' }, ...chips], answer)).toBe(`executions?status=failed&${want}&worker=a/go/1`))
  }
  it('lead to one of the alternatives that the page has', () => {
    const chips = [{ key: 'action', value: 'a' }, { key: 'action', value: 'b' }, { key: 'pool', value: 'go' }, { key: 'pool', value: 'python' }]
    expect(listOf(group({ action_ref: 'b', code: 'boom' }), chips, answer)).toBe('executions?action=b&pool=go&pool=python&ended_from=2030-01-31T08:00:00Z&status=failed,timed_out,abandoned&error=boom')
    expect(listOf(group({ code: 'boom' }), chips, answer)).toBe('executions?action=a&action=b&pool=go&pool=python&ended_from=2030-01-31T08:00:00Z&status=failed,timed_out,abandoned&error=boom')
  })
  it('say how their executions spread', () => expect(shares([{ value: 'a/go/1', n: 1200 }, { value: 'a/go/2', n: 1 }])).toBe('a/go/1 ×1,200, a/go/2 ×1'))
  it('have no statuses but those of failures, and no order', () => {
    expect(keys.find((k) => k.name === 'status')?.values).toEqual(['failed', 'timed_out', 'abandoned'])
    expect(keys.some((k) => k.name.startsWith('ended_') || k.name === 'order' || k.name === 'not.status')).toBe(false)
  })
})
