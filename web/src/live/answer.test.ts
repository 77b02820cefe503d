import { expect, test } from 'vitest'
import { Answer, type Change } from './answer'

const first: Change = { topic: 't', n: 1, set: [['rows/a', { id: 'a' }], ['rows/b', { id: 'b' }], ['more', 'end']] }

test.each<[string, Omit<Change, 'topic'>, unknown]>([
  ['nothing changes', { n: 2, after: 1 }, { rows: [{ id: 'a' }, { id: 'b' }], more: 'end' }],
  ['another value stays where it is', { n: 2, after: 1, set: [['rows/b', { id: 'b', x: 1 }]] }, { rows: [{ id: 'a' }, { id: 'b', x: 1 }], more: 'end' }],
  ['what is new stands in front', { n: 2, after: 1, set: [['rows/c', { id: 'c' }]], gone: ['rows/b'] }, { rows: [{ id: 'c' }, { id: 'a' }], more: 'end' }],
  ['an order', { n: 2, after: 1, set: [['rows/c', { id: 'c' }]], keys: ['rows/a', 'rows/b', 'rows/c', 'more'] }, { rows: [{ id: 'a' }, { id: 'b' }, { id: 'c' }], more: 'end' }],
  ['the last row goes', { n: 2, after: 1, set: [['rows', []]], gone: ['rows/a', 'rows/b'], keys: ['rows', 'more'] }, { rows: [], more: 'end' }],
  ['a snapshot replaces all', { n: 9, set: [['more', 'found']] }, { more: 'found' }],
])('%s', (_, change, want) => {
  const answer = new Answer()
  expect(answer.take(first)).toBe(true)
  expect(answer.take({ topic: 't', ...change })).toBe(true)
  expect(answer.document()).toEqual(want)
})

test.each<[string, Omit<Change, 'topic'>]>([
  ['it follows another state', { n: 3, after: 2 }],
  ['what goes is not there', { n: 2, after: 1, gone: ['rows/x'] }],
  ['the order lacks a key', { n: 2, after: 1, keys: ['rows/a'] }],
  ['the order has another key', { n: 2, after: 1, keys: ['rows/a', 'rows/b', 'rows/x'] }],
])('refused: %s', (_, change) => {
  const answer = new Answer()
  answer.take(first)
  expect(answer.take({ topic: 't', ...change })).toBe(false)
})

test('a difference without a snapshot is refused', () => {
  expect(new Answer().take({ topic: 't', n: 2, after: 1 })).toBe(false)
})
