import { expect, test } from 'vitest'
import type { Webhook } from '../api/types'
import { last, open, repeatable, told } from './webhooks'

const hook = (more: Partial<Webhook>): Webhook => ({ execution: 'e', url: 'https://h/x', state: 'due', tries: 0, ...more })

test.each([
  [{ state: 'waiting' }, true, false, 'waits for the end of the execution'],
  [{ state: 'due', tries: 3 }, true, false, 'is to be called, after 3 tries'],
  [{ state: 'told', tries: 1 }, false, true, 'was told, after 1 try'],
  [{ state: 'given_up', tries: 16 }, false, true, 'was given up, after 16 tries'],
  [{ state: 'passed' }, false, false, 'is not called: the outcome was not asked for, or a retry is told instead'],
] as const)('a webhook that is %o', (more, isOpen, again, text) => {
  const h = hook(more)
  expect([open(h), repeatable(h), told(h)]).toEqual([isOpen, again, text])
})

test('the last call', () => {
  expect(last(hook({}))).toBe('')
  expect(last(hook({ code: 204 }))).toBe('HTTP 204')
  expect(last(hook({ code: 503, error: 'the answer was no' }))).toBe('HTTP 503: the answer was no')
  expect(last(hook({ error: 'nobody answers' }))).toBe('nobody answers')
})
