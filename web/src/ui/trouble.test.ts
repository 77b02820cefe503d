import { describe, expect, it } from 'vitest'
import { again, troubleOf } from './trouble'

describe('what a banner says', () => {
  for (const [status, code, message, title, adds] of [
    [0, 'unreachable', 'the node does not answer', 'The node does not answer', ''],
    [403, 'forbidden', 'this needs the scope admin', 'Your token does not allow this', 'this needs the scope admin'],
    [503, 'store_unavailable', 'it is not reached', 'The store is away', 'it is not reached'],
    [501, 'node_older', 'node b does not know this', 'That node is too old for this', 'node b does not know this'],
    [500, 'internal', 'its log says why', 'The node cannot answer this now', 'its log says why'],
    [404, 'not_found', 'there is none', 'The node refused this', 'there is none'],
  ] as const) {
    it(code, () => expect(troubleOf({ status, code, message })).toEqual({ title, adds, code: adds && code }))
  }
})

it('offers to ask again where that may help', () => {
  expect([0, 403, 429, 500, 503, 404, 400].map((status) => again({ status }))).toEqual([true, true, true, true, true, false, false])
})
