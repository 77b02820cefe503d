import { describe, expect, it } from 'vitest'
import type { ErrorGroup } from '../api/types'
import { keys, listOf, shares } from './errors'

const group = (more: Partial<ErrorGroup>): ErrorGroup => ({ n: 1, first: '', last: '', example: '', examples: [], ...more })

describe('groups of errors', () => {
  it('lead to their executions, with the filters of the page', () => {
    expect(listOf(group({ action_ref: 'core.fail', code: 'boom' }), [{ key: 'pool', value: 'go' }, { key: 'from', value: '2030-01-31T08:00:00Z' }, { key: 'by', value: 'code' }, { key: 'odd', value: 'x', wrong: 'no' }]))
      .toBe('executions?pool=go&ended_from=2030-01-31T08:00:00Z&status=failed,timed_out,abandoned&action=core.fail&error=boom')
    expect(listOf(group({ worker: 'a/go/1' }), [{ key: 'status', value: 'failed' }, { key: 'from', value: '-1h' }])).toBe('executions?status=failed&worker=a/go/1')
  })
  it('say how their executions spread', () => expect(shares([{ value: 'a/go/1', n: 1200 }, { value: 'a/go/2', n: 1 }])).toBe('a/go/1 ×1,200, a/go/2 ×1'))
  it('have no statuses but those of failures, and no order', () => {
    expect(keys.find((k) => k.name === 'status')?.values).toEqual(['failed', 'timed_out', 'abandoned'])
    expect(keys.some((k) => k.name.startsWith('ended_') || k.name === 'order' || k.name === 'not.status')).toBe(false)
  })
})
