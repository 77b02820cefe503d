import { expect, test } from 'vitest'
import type { Webhook } from '../api/types'
import { calling, last, open, repeatable, told } from './webhooks'

const hook = (more: Partial<Webhook>): Webhook => ({ execution: 'e', url: 'https://h/x', state: 'due', tries: 0, ...more })

test.each([
  [{ state: 'waiting' }, true, false, 'waits for the end of the execution'],
  [{ state: 'due', tries: 3 }, true, false, 'is to be called, after 3 tries'],
  [{ state: 'told', tries: 1 }, false, true, 'was told, after 1 try'],
  [{ state: 'given_up', tries: 16 }, false, true, 'was given up, after 16 tries'],
  [{ state: 'passed' }, false, false, 'is not called: the outcome was not asked for, or a retry is told instead'],
] as const)('a webhook that is %o', (more, isOpen, again, text) => {
  const h = hook(more)
  expect([open(h), repeatable(h), told(h, 0)]).toEqual([isOpen, again, text])
})

test('the last call', () => {
  expect(last(hook({}))).toBe('')
  expect(last(hook({ code: 204 }))).toBe('HTTP 204')
  expect(last(hook({ code: 503, error: 'the answer was no' }))).toBe('HTTP 503: the answer was no')
  expect(last(hook({ error: 'nobody answers' }))).toBe('nobody answers')
})

test('one that is called for the first time', () => {
  const since = '2030-01-31T08:00:00.5Z', now = Date.parse('2030-01-31T08:00:02Z'), ahead = '2030-01-31T08:00:20.5Z'
  expect(told(hook({ since, next_at: ahead }), now)).toBe('is being called')
  const is = (more: Partial<Webhook>) => calling(hook({ since, ...more }), now)
  expect(is({ next_at: since })).toBe(false) // nobody has taken it
  expect(is({ next_at: '2030-01-31T08:00:01.5Z' })).toBe(false) // its node ended during the call
  expect(is({ next_at: ahead, tries: 1 })).toBe(false) // it failed, or is called again: that is not known
  expect(is({ next_at: ahead, state: 'told' })).toBe(false)
  expect(is({})).toBe(false)
})
