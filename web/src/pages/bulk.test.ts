import { expect, test } from 'vitest'
import type { BulkPreview, Operation } from '../api/types'
import { ended, filterOf, listOf, question, reason, share, things, typedFor, wanted, written } from './bulk'

test('a filter has the chips that the node takes', () => {
  const chips = [{ key: 'status', value: 'failed' }, { key: 'status', value: 'timed_out' }, { key: 'order', value: 'oldest' }, { key: 'odd', value: 'x', wrong: 'no' }, { key: 'label', value: 'a=b' }]
  expect(filterOf(chips)).toEqual({ status: ['failed', 'timed_out'], label: ['a=b'] })
  expect(filterOf([{ key: 'order', value: 'oldest' }])).toEqual({})
  expect(written(filterOf(chips))).toBe('status=failed status=timed_out label=a=b')
  expect(listOf('retry', filterOf(chips))).toBe('executions?status=failed,timed_out&label=a%3Db')
  expect(listOf('discard', { reason: ['expired'] })).toBe('dead-letters?reason=expired')
  expect(listOf('cancel', undefined)).toBeUndefined()
})

test('chosen rows are named by their ids', () => {
  expect(wanted('cancel', ['a', 'b'], { pool: ['p'] })).toEqual({ kind: 'cancel', ids: ['a', 'b'] })
  expect(wanted('requeue', ['7', '9'], {})).toEqual({ kind: 'requeue', dead_letters: [7, 9] })
  expect(wanted('discard', [], { reason: ['expired'] })).toEqual({ kind: 'discard', filter: { reason: ['expired'] } })
  expect([things('retry', 1), things('cancel', 0), things('requeue', 1), things('discard', 2)]).toEqual(['execution', 'executions', 'dead letter', 'dead letters'])
})

test('many are typed', () => {
  const p = (count: number, exact = true) => ({ count, exact }) as BulkPreview
  expect(typedFor(p(100), {})).toBeUndefined()
  expect(typedFor(p(101), {})).toBe('101')
  expect(typedFor(p(5, false), { pool: ['p'] })).toBe('pool=p')
})

test('progress', () => {
  const o = (state: string, done: number, failed: number, count: number) => ({ state, done, failed, count }) as Operation
  expect(share(o('running', 30, 10, 80))).toBe(0.5)
  expect(share(o('running', 90, 10, 80))).toBe(1)
  expect(share(o('running', 0, 0, 0))).toBe(0)
  expect(share(o('done', 1, 0, 80))).toBe(1)
  expect(['running', 'stopping', 'stopped', 'done', 'failed'].map((s) => ended(o(s, 0, 0, 0)))).toEqual([false, false, true, true, true])
  expect(['ended', 'already_retried', 'unknown', 'already_requeued', 'no_execution'].map((why) => reason(why, 1))).toEqual(['has ended', 'has a retry already', 'is not in the store', 'was requeued before', 'names no execution'])
  expect(reason('ended', 2)).toBe('have ended')
  expect(reason('new_word', 1)).toBe('new_word')
  expect([0, 1, 1200].map((count) => question('retry', { count, exact: count < 9 }))).toEqual(['No execution to retry', 'Retry 1 execution?', 'Retry at least 1,200 executions?'])
})
