import { expect, test } from 'vitest'
import { Events, type SentEvent } from './sse'

const e = (kind: string, data: string, id?: string): SentEvent => ({ kind, data, id })

test.each<[string, string[], SentEvent[]]>([
  ['one event', ['id: i.1\nevent: list\ndata: {"a":1}\n\n'], [e('list', '{"a":1}', 'i.1')]],
  ['in pieces', ['ev', 'ent: li', 'st\nda', 'ta: 1\n', '\n'], [e('list', '1')]],
  ['two', ['event: a\ndata: 1\n\nevent: b\ndata: 2\n\n'], [e('a', '1'), e('b', '2')]],
  ['an id that is taken back', ['id:\nevent: reset\nretry: 7\ndata: {}\n\n'], [e('reset', '{}', '')]],
  ['lines of data', ['event: a\ndata: 1\ndata: 2\n\n'], [e('a', '1\n2')]],
  ['a sign of life', [': still here\n\n'], []],
  ['no end yet', ['event: a\ndata: 1\n'], []],
  ['a colon within', ['event: a\ndata: x: y\n\n'], [e('a', 'x: y')]],
])('%s', (_, pieces, want) => {
  const events = new Events()
  expect(pieces.flatMap((piece) => events.take(piece))).toEqual(want)
})

test('a line without an end is bounded', () => {
  expect(() => new Events(10).take('data: 123456')).toThrow('too long')
})
